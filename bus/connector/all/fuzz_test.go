package all_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/all"
	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/bus/connector/hub"
	"github.com/musterhq/muster/bus/connector/sign"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
)

const fuzzSecret = "fuzz-secret-of-the-hooks"

// allocated is how many bytes the process has allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// FuzzHooks sends every kind of webhook any body, with the peer's proof, so that its
// decoder sees it: the answer is 200 or a problem of the sender, nothing panics, the
// secret is in no event, and memory is not taken without measure.
func FuzzHooks(f *testing.F) {
	const mostAllocated = 64 << 20
	judge := domain.NewJudge(lifecycle.Registry())
	kinds := all.Kinds()
	seed := func(kind string, header map[string]string, body string) {
		at := slices.IndexFunc(kinds, func(k all.Kind) bool { return k.Name == kind })
		f.Add(uint8(at), header["ce-type"], []byte(body))
	}
	for name, s := range subjects {
		kind, _, _ := strings.Cut(name, " ")
		for _, one := range []sample{s.Fact, s.Later, s.Unknown} {
			seed(kind, one.Header, one.Body)
		}
		seed(kind, nil, "")
		seed(kind, nil, `{"event":{},"payload":null,"data":[],"entry":{},"timestamp":1e999,"session":"\u0000"}`)
	}
	f.Fuzz(func(t *testing.T, which uint8, ceType string, body []byte) {
		k := kinds[int(which)%len(kinds)]
		source := &connector.Source{Kind: k.Name, Name: k.Name, Secrets: []string{fuzzSecret}}
		ledger := connectortest.NewLedger()
		h, err := hub.New(hub.Config{Ledger: ledger, Memory: &hub.MapMemory{}}, []hub.Entry{{Connector: k.New(judge), Source: source}})
		if err != nil {
			t.Fatal(err)
		}
		r := &connector.Request{
			Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/json"}}, Query: url.Values{}, Body: body, At: time.Now().UnixNano(),
		}
		if ceType != "" {
			for name, value := range ce("e-1", ceType, "2026-01-11T10:00:01Z") {
				r.Header.Set(name, value)
			}
		}
		if err := sign.Request(source, r); err != nil {
			return // such a body cannot carry the proof
		}
		req := httptest.NewRequestWithContext(context.Background(), r.Method, hub.Prefix+k.Name+"?"+r.Query.Encode(), bytes.NewReader(r.Body))
		req.Header = r.Header
		w := httptest.NewRecorder()
		before := allocated()
		h.ServeHTTP(w, req)
		if n := allocated() - before; n > mostAllocated {
			t.Fatalf("%s: %d bytes were allocated for a body of %d", k.Name, n, len(body))
		}
		answered(t, k.Name, w)
		for _, e := range ledger.Events() {
			if where := connectortest.Leaks(e, fuzzSecret); where != "" && !bytes.Contains(body, []byte(fuzzSecret)) {
				t.Fatalf("%s: the secret is kept in %s", k.Name, where)
			}
		}
	})
}

// answered holds the answer to a webhook to what a peer may be told.
func answered(t *testing.T, kind string, w *httptest.ResponseRecorder) {
	t.Helper()
	switch w.Code {
	case http.StatusOK:
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusUnsupportedMediaType:
		if !json.Valid(w.Body.Bytes()) || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/problem+json") {
			t.Fatalf("%s: status %d with %q of type %q", kind, w.Code, w.Body, w.Header().Get("Content-Type"))
		}
	default:
		t.Fatalf("%s: status %d: %s", kind, w.Code, w.Body)
	}
}

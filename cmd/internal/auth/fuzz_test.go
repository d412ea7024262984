package auth

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// FuzzAuthorization gives a guard any Authorization header, Host and origin. Only the
// very credentials that were handed out let anybody in; everything else is told as
// problem+json that it is not.
func FuzzAuthorization(f *testing.F) {
	tokens := New(Config{User: "muster", Password: "s3cret"})
	known := map[string]string{"Basic " + base64.StdEncoding.EncodeToString([]byte("muster:s3cret")): "muster"}
	roles := map[string]Role{"muster": Admin}
	for i, role := range []Role{Admin, Operator, Reader, Connector} {
		// Not by NewSecret: each process of a fuzz run must know the same ones.
		id, secret := idEncoding.EncodeToString(bytes.Repeat([]byte{byte(i)}, idBytes)), strings.Repeat("0"+string(rune('a'+i)), secretBytes)
		whole := Prefix + id + "_" + secret
		k := Token{ID: id, Hash: HashOf(secret), Role: role, Name: string(role), By: "test", Created: time.Unix(int64(i), 0)}
		if role == Connector {
			k.Sources = []string{"waha-1"}
		}
		tokens.tokens[k.ID] = &k
		roles[k.Name] = role
		known["Bearer "+whole] = k.Name
		known["Basic "+base64.StdEncoding.EncodeToString([]byte(id+":"+secret))] = k.Name
		f.Add("Bearer "+whole, "muster.example", "")
		f.Add("bearer  "+whole+" ", "", "same-origin")
		f.Add("Bearer "+whole[:len(whole)-1], "127.0.0.1", "cross-site")
		f.Add("Basic "+base64.StdEncoding.EncodeToString([]byte(id+":"+secret)), "[::1]:8080", "none")
	}
	close(tokens.loaded)
	for _, text := range []string{"", " ", "Bearer", "Bearer mst_", "Bearer mst__", "Basic !", "Basic " + base64.StdEncoding.EncodeToString([]byte("muster:")), "Digest x", "Bearer mst_a_\x00"} {
		f.Add(text, "127.0.0.1:8080", "")
	}
	g := NewGuard(tokens, GuardConfig{Body: 8})
	f.Fuzz(func(t *testing.T, header, host, site string) {
		for _, need := range []Role{Any, Connector, Reader, Operator, Admin} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://muster.example/v1/x", strings.NewReader("{}"))
			r.Host = host
			if header != "" {
				r.Header.Set("Authorization", header)
			}
			if site != "" {
				r.Header.Set("Sec-Fetch-Site", site)
			}
			w := httptest.NewRecorder()
			var in *Identity
			g.Need(need, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { in = From(r.Context()) })).ServeHTTP(w, r)
			if in != nil {
				admitted(t, known, roles, header, need, in)
				continue
			}
			var p problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Fatalf("%q is refused with %q, type %q", header, w.Body, w.Header().Get("Content-Type"))
			}
			if p.Status != w.Code || p.Code == "" || w.Code != http.StatusUnauthorized && w.Code != http.StatusForbidden {
				t.Fatalf("%q is refused with status %d and %s", header, w.Code, w.Body)
			}
		}
	})
}

// admitted holds who was let in to the credentials that were handed out.
func admitted(t *testing.T, known map[string]string, roles map[string]Role, header string, need Role, in *Identity) {
	t.Helper()
	for credentials, name := range known {
		scheme, text, _ := strings.Cut(credentials, " ")
		gotScheme, got, _ := strings.Cut(header, " ")
		same := got == text
		if scheme == "Bearer" {
			same = strings.TrimSpace(got) == text
		} else if b, err := base64.StdEncoding.DecodeString(got); err == nil {
			want, _ := base64.StdEncoding.DecodeString(text)
			same = string(b) == string(want)
		}
		if !same || !strings.EqualFold(scheme, gotScheme) || name != in.Name {
			continue
		}
		if err := Allow(With(context.Background(), in), need); err != nil || roles[name] != in.Role {
			t.Fatalf("%s with role %s is let in where %s is needed", in.Name, in.Role, need)
		}
		return
	}
	t.Fatalf("%q lets in as %+v", header, in)
}

package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/inbox"
	"github.com/musterhq/muster/bus/operator"
	"github.com/musterhq/muster/bus/worker"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/cmd/internal/auth"
	"github.com/musterhq/muster/cmd/internal/config"
	"github.com/musterhq/muster/cmd/internal/httpapi"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
)

// matrix says for each route who gets in: nobody (no token), connector, reader,
// operator, admin. What stands here is the rule, and is not taken from the code.
const matrix = `
GET  /healthz                                                         yes yes yes yes yes
GET  /readyz                                                          yes yes yes yes yes
POST /hooks/plain/shop                                                own own own own own
GET  /metrics                                                         no  no  yes yes yes
GET  /openapi.json                                                    no  yes yes yes yes
GET  /openapi.yaml                                                    no  yes yes yes yes
GET  /v1/errors                                                       no  yes yes yes yes
GET  /v1/accounts                                                     no  no  yes yes yes
GET  /v1/facets                                                       no  no  yes yes yes
GET  /v1/accounts/{account}                                           no  yes yes yes yes
GET  /v1/accounts/{account}/can                                       no  yes yes yes yes
GET  /v1/accounts/{account}/why                                       no  no  yes yes yes
GET  /v1/accounts/{account}/timeline                                  no  no  yes yes yes
GET  /v1/accounts/{account}/messages/{message}                        no  no  yes yes yes
GET  /v1/accounts/{account}/conversations/{contact}                   no  no  yes yes yes
POST /v1/accounts/{account}/conversations/{contact}/claims            no  yes no  yes yes
POST /v1/accounts/{account}/triggers                                  no  yes no  yes yes
POST /v1/triggers                                                     no  yes no  yes yes
GET  /v1/route                                                        no  no  yes yes yes
GET  /v1/messages                                                     no  no  yes yes yes
GET  /v1/conversations                                                no  no  yes yes yes
GET  /v1/stats                                                        no  no  yes yes yes
GET  /v1/distribution                                                 no  no  yes yes yes
GET  /v1/distribution/history                                         no  no  yes yes yes
GET  /v1/time-to-running                                              no  no  yes yes yes
GET  /v1/transitions                                                  no  no  yes yes yes
GET  /v1/digest                                                       no  no  yes yes yes
GET  /v1/attention                                                    no  no  yes yes yes
POST /v1/actions                                                      no  no  no  yes yes
GET  /v1/alerts                                                       no  no  yes yes yes
GET  /v1/alerts/deliveries                                            no  no  yes yes yes
POST /v1/alerts/resend                                                no  no  no  yes yes
POST /v1/alerts/test                                                  no  no  no  yes yes
GET  /v1/machines                                                     no  no  yes yes yes
GET  /v1/machines/{machine}                                           no  no  yes yes yes
GET  /v1/machines/{machine}/diagram                                   no  no  yes yes yes
GET  /v1/workers                                                      no  no  yes yes yes
GET  /v1/connectors                                                   no  no  yes yes yes
GET  /v1/inbox                                                        no  no  yes yes yes
POST /v1/inbox/retry                                                  no  no  no  yes yes
POST /v1/inbox/drop                                                   no  no  no  yes yes
GET  /v1/projections                                                  no  no  yes yes yes
POST /v1/projections/rebuild                                          no  no  no  yes yes
GET  /v1/tokens                                                       no  no  no  no  yes
POST /v1/tokens                                                       no  no  no  no  yes
POST /v1/tokens/revoke                                                no  no  no  no  yes
GET  /v1/stream                                                       no  no  yes yes yes
GET  /v1/no/such/path                                                 no  yes yes yes yes
`

// bodies are what a route must be given to be let further than the door.
var bodies = map[string]string{
	"/v1/accounts/{account}/triggers": `{"account":"acct-1","trigger":"start","source":"waha-1"}`,
	"/v1/triggers":                    `{"account":"acct-2","trigger":"start","source":"waha-1"}` + "\n",
	"/v1/accounts/{account}/conversations/{contact}/claims": `{"message":"m-1","side":"bot","handler":"h","source":"waha-1"}`,
}

func (s *server) try(t *testing.T, role auth.Role, method, path string) int {
	t.Helper()
	body := bodies[path]
	if body == "" && method == http.MethodPost {
		body = "{}"
	}
	for name, value := range map[string]string{"{account}": "acct-1", "{message}": "m-1", "{contact}": "c-1", "{machine}": "whatsapp@2"} {
		path = strings.ReplaceAll(path, name, value)
	}
	code, _ := s.ask(t, role, method, path, body)
	return code
}

// TestAuthorization asks every route as everybody.
func TestAuthorization(t *testing.T) {
	s := serving(t, func(o *Options) { o.Config.Connectors = []config.Connector{webhook("shop", "a secret of the shop")} })
	send(t, s.client(t), "acct-1", "start")
	s.everybody(t)
	seen := map[string]bool{}
	for line := range strings.Lines(strings.TrimSpace(matrix)) {
		f := strings.Fields(line)
		method, path := f[0], f[1]
		seen[method+" "+path] = true
		for i, role := range []auth.Role{"", auth.Connector, auth.Reader, auth.Operator, auth.Admin} {
			code := s.try(t, role, method, path)
			in := code != http.StatusUnauthorized && code != http.StatusForbidden
			want := f[2+i]
			switch {
			case want == "own" && code != http.StatusUnauthorized: // its own proof is missing
				t.Errorf("%s %s as %q: %d, want 401 of the source's own", method, path, role, code)
			case want == "yes" && !in, want == "no" && in:
				t.Errorf("%s %s as %q: %d, want in: %s", method, path, role, code, want)
			case want == "no" && role == "" && code != http.StatusUnauthorized, want == "no" && role != "" && code != http.StatusForbidden:
				t.Errorf("%s %s as %q: %d, want 401 of nobody and 403 of a role", method, path, role, code)
			}
		}
	}
	for _, r := range httpapi.Routes() {
		if !seen[r.Method+" "+r.Path] {
			t.Errorf("the matrix does not say who may use %s %s", r.Method, r.Path)
		}
	}
	for _, other := range []string{"PUT", "DELETE", "PATCH", "HEAD"} {
		for _, path := range []string{"/v1/tokens", "/metrics"} {
			if code := s.try(t, auth.Connector, other, path); code < 400 {
				t.Errorf("%s %s as a connector: %d", other, path, code)
			}
		}
	}
}

// TestQueriesHaveNeeds: nobody forgets to say who may ask a question on the bus.
func TestQueriesHaveNeeds(t *testing.T) {
	for _, q := range New(Options{}).queries() {
		if _, known := auth.QueryNeeds(q.Name); !known {
			t.Errorf("nothing says who may ask %s", q.Name)
		}
	}
}

// TestConnectorsSpeakForTheirSources: over HTTP and over the bus alike.
func TestConnectorsSpeakForTheirSources(t *testing.T) {
	s := serving(t, nil)
	s.everybody(t)
	nc, _ := s.dial(t, auth.Connector)
	c := bus.NewClient(nc, bus.ClientConfig{BySource: true, Tries: 1, Timeout: time.Second})
	for name, tt := range map[string]struct {
		trigger domain.Trigger
		body    string
		may     bool
	}{
		"its own":          {domain.Trigger{Name: "start", Source: "waha-1"}, `{"account":"acct-1","trigger":"start","source":"waha-1"}`, true},
		"another's":        {domain.Trigger{Name: "start", Source: "waha-2"}, `{"account":"acct-1","trigger":"start","source":"waha-2"}`, false},
		"as an operator":   {domain.Trigger{Name: "stop", Source: "waha-1", By: domain.ByUser}, `{"account":"acct-1","trigger":"stop","source":"waha-1","by":"user"}`, false},
		"forget":           {domain.Trigger{Name: "forget", Source: "waha-1"}, `{"account":"acct-1","trigger":"forget","source":"waha-1"}`, false},
		"without a source": {domain.Trigger{Name: "start"}, `{"account":"acct-1","trigger":"start"}`, false},
	} {
		tr := tt.trigger
		tr.Account, tr.Expect = "acct-1", domain.NoExpect
		if _, err := c.Send(t.Context(), tr); (err == nil) != tt.may || err != nil && !errors.Is(err, bus.ErrNotAllowed) {
			t.Errorf("%s, on the bus: %v, want let through: %v", name, err, tt.may)
		}
		code, text := s.ask(t, auth.Connector, http.MethodPost, "/v1/accounts/acct-1/triggers", tt.body)
		if (code == http.StatusForbidden) == tt.may {
			t.Errorf("%s, over HTTP: %d %s, want let through: %v", name, code, text, tt.may)
		}
		if code, text := s.ask(t, auth.Operator, http.MethodPost, "/v1/accounts/acct-1/triggers", tt.body); code == http.StatusForbidden {
			t.Errorf("%s, over HTTP by an operator: %d %s", name, code, text)
		}
	}
}

// TestTokensOverTheBus makes the first token through an open server's bus, and ends
// one, and finds both in the operators' log with who did it.
func TestTokensOverTheBus(t *testing.T) {
	s := serving(t, nil)
	closed := make(chan struct{})
	open, err := nats.Connect(s.NATSURL(), nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	s.everybody(t)
	<-closed // by the server: it asks everybody now
	id, secret, _ := auth.Split(s.tokens[auth.Admin])
	nc, err := bus.Connect(t.Context(), bus.ConnectConfig{URL: s.NATSURL(), User: id, Password: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := bus.NewClient(nc, bus.ClientConfig{})
	reader, _, _ := auth.Split(s.tokens[auth.Reader])
	var ended api.Token
	if err := c.Query(t.Context(), api.TokenRevokeQuery, api.TokenRevokeRequest{ID: reader, By: "ada", Reason: "lost"}, &ended); err != nil || ended.Status != "revoked" {
		t.Fatalf("%+v, %v", ended, err)
	}
	if code, _ := s.ask(t, auth.Reader, http.MethodGet, "/v1/stats", ""); code != http.StatusUnauthorized {
		t.Errorf("with the revoked token: %d, want 401", code)
	}
	var list api.Tokens
	if err := c.Query(t.Context(), api.TokensQuery, api.TokensRequest{}, &list); err != nil || len(list.Tokens) != 4 {
		t.Fatalf("%d tokens, %v; want 4", len(list.Tokens), err)
	}
	var told []string
	for e, err := range s.alerts.actions.Follow(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, string(e.Action.Action)+" by "+e.Action.By+" of "+e.Action.Target["token"])
		if e.Action.Action == operator.Name("token_revoke") {
			break
		}
	}
	if len(told) != 5 || told[4] != "token_revoke by ada of "+reader || told[0] != "token_create by test of "+id {
		t.Errorf("the operators' log has %q", told)
	}
	if err := c.Query(t.Context(), api.TokenRevokeQuery, api.TokenRevokeRequest{ID: "nonsense", By: "ada"}, nil); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("an unknown token: %v, want ErrNotFound", err)
	}
}

// TestNobodyCouldComeIn: an address that others reach, on data that was used, is
// refused when there is neither a password nor a live token.
func TestNobodyCouldComeIn(t *testing.T) {
	cfg := settings(t)
	cfg.HTTP = "0.0.0.0:0"
	a := New(Options{Config: cfg, Machines: lifecycle.Registry()})
	if err := a.Run(t.Context()); !errors.Is(err, bus.ErrCredentialsRequired) {
		t.Errorf("Run: %v, want ErrCredentialsRequired", err)
	}
}

// TestOperatorsAreAudited: who has stopped an account over HTTP stands in the
// operators' log; what a connector tells does not.
func TestOperatorsAreAudited(t *testing.T) {
	s := serving(t, nil)
	s.everybody(t)
	for _, r := range []struct {
		role       auth.Role
		path, body string
	}{
		{auth.Connector, "/v1/accounts/acct-1/triggers", `{"trigger":"start","source":"waha-1"}`},
		{auth.Operator, "/v1/accounts/acct-1/triggers", `{"trigger":"start","source":"cli"}`},
		{auth.Operator, "/v1/accounts/acct-1/triggers", `{"trigger":"stop","by":"user","reason":{"code":"","text":"holiday"}}`},
		{auth.Admin, "/v1/triggers", `{"account":"acct-1","trigger":"forget"}` + "\n"},
	} {
		if code, text := s.ask(t, r.role, http.MethodPost, r.path, r.body); code >= 400 {
			t.Fatalf("%s as %s: %d %s", r.body, r.role, code, text)
		}
	}
	var told []string
	for e, err := range s.alerts.actions.Follow(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if a := e.Action; a.Action == operatorTriggered {
			told = append(told, a.By+": "+a.Target["trigger"]+" "+a.Target["account"]+" "+a.Target["outcome"]+" "+a.Reason)
			if a.Target["trigger"] == "forget" {
				break
			}
		}
	}
	if want := []string{"operator: stop acct-1 applied holiday", "admin: forget acct-1 applied "}; !slices.Equal(told, want) {
		t.Errorf("the operators' log has %q, want %q", told, want)
	}
}

// dial connects over NATS with the token of a role.
func (s *server) dial(t *testing.T, role auth.Role) (*nats.Conn, string) {
	t.Helper()
	id, secret, _ := auth.Split(s.tokens[role])
	nc, err := bus.Connect(t.Context(), bus.ConnectConfig{URL: s.NATSURL(), User: id, Password: secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc, id
}

// TestNamesOnTheBus: what comes over NATS in a token's name is let through by its
// role and sources, and kept with who has sent it, whatever it says itself.
func TestNamesOnTheBus(t *testing.T) {
	s := serving(t, nil)
	s.everybody(t)
	send := func(role auth.Role, tr domain.Trigger) error {
		nc, id := s.dial(t, role)
		tr.Account, tr.Expect = "acct-1", domain.NoExpect
		_, err := bus.NewClient(nc, bus.ClientConfig{As: id, Tries: 1}).Send(t.Context(), tr)
		return err
	}
	for name, tt := range map[string]struct {
		role auth.Role
		t    domain.Trigger
		may  bool
	}{
		"a connector, its source":  {auth.Connector, domain.Trigger{Name: "start", Source: "waha-1"}, true},
		"a connector, another's":   {auth.Connector, domain.Trigger{Name: "start", Source: "waha-2"}, false},
		"a connector, as a user":   {auth.Connector, domain.Trigger{Name: "stop", Source: "waha-1", By: domain.ByUser}, false},
		"a reader":                 {auth.Reader, domain.Trigger{Name: "start", Source: "waha-1"}, false},
		"an operator, any source":  {auth.Operator, domain.Trigger{Name: "start", Source: "waha-2"}, true},
		"an operator, as a user":   {auth.Operator, domain.Trigger{Name: "stop", By: domain.ByUser}, true},
		"an admin, as an operator": {auth.Admin, domain.Trigger{Name: "forget"}, true},
	} {
		if err := send(tt.role, tt.t); (err == nil) != tt.may || err != nil && !errors.Is(err, bus.ErrNotAllowed) {
			t.Errorf("%s: %v, want let through %v", name, err, tt.may)
		}
	}

	nc, id := s.dial(t, auth.Operator)
	plain, named := bus.NewClient(nc, bus.ClientConfig{Tries: 1}), bus.NewClient(nc, bus.ClientConfig{As: id, Tries: 1})
	mute := api.ActRequest{Action: "mute", By: "somebody else", Target: map[string]string{"kind": "stuck"}}
	if err := plain.Query(t.Context(), api.ActQuery, mute, nil); !errors.Is(err, bus.ErrNotAllowed) {
		t.Errorf("a mute without a name: %v, want ErrNotAllowed", err)
	}
	var kept api.Action
	if err := named.Query(t.Context(), api.ActQuery, mute, &kept); err != nil || kept.By != "operator" {
		t.Errorf("a mute: by %q, %v; want by the token's name, operator", kept.By, err)
	}
	if err := named.Query(t.Context(), api.InboxDropQuery, api.SettleRequest{All: true}, nil); err != nil {
		t.Error(err)
	}
	if err := named.Query(t.Context(), api.TokensQuery, api.TokensRequest{}, nil); !errors.Is(err, bus.ErrNotAllowed) {
		t.Errorf("an operator lists tokens: %v, want ErrNotAllowed", err)
	}
	rnc, reader := s.dial(t, auth.Reader)
	var workers api.Workers
	if err := bus.NewClient(rnc, bus.ClientConfig{As: reader, Tries: 1}).Query(t.Context(), api.WorkersQuery, struct{}{}, &workers); err != nil {
		t.Errorf("a reader asks in its name: %v", err)
	}
	want := []string{"admin: trigger forget applied", "operator: inbox_drop", "operator: mute", "operator: trigger stop applied"}
	if told := s.told(t, 4); !slices.Equal(told, want) {
		t.Errorf("the operators' log has %q, want %q", told, want)
	}
}

// told are so many of the first actions of the operators' log, but for tokens, in
// the order of their text.
func (s *server) told(t *testing.T, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var told []string
	for e, err := range s.alerts.actions.Follow(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if a := e.Action; a.Action != tokenCreated {
			told = append(told, strings.TrimSpace(a.By+": "+string(a.Action)+" "+strings.TrimSpace(a.Target["trigger"]+" "+a.Target["outcome"])))
		}
		if len(told) == n {
			break
		}
	}
	slices.Sort(told)
	return told
}

// TestInboxNames: a connector publishes to the inbox in its token's name or on its
// source's subject. What it may not say is parked, an operator's word is kept.
func TestInboxNames(t *testing.T) {
	s := serving(t, nil)
	s.everybody(t)
	connector, cid := s.dial(t, auth.Connector)
	operators, oid := s.dial(t, auth.Operator)
	publish := func(nc *nats.Conn, as bus.Speaker, tr domain.Trigger) {
		t.Helper()
		p, err := inbox.NewPublisher(nc)
		if err != nil {
			t.Fatal(err)
		}
		tr.Account, tr.Expect = "acct-1", domain.NoExpect
		if _, err := p.As(as).Publish(t.Context(), &tr); err != nil {
			t.Fatal(err)
		}
	}
	publish(connector, bus.Speaker{Token: cid}, domain.Trigger{Name: "start", Source: "waha-1"})
	publish(connector, bus.Speaker{Source: "waha-1"}, domain.Trigger{Name: "qr_received", Source: "waha-1"})
	publish(connector, bus.Speaker{Source: "waha-1"}, domain.Trigger{Name: "qr_scanned", Source: "waha-2"})
	publish(connector, bus.Speaker{Token: cid}, domain.Trigger{Name: "stop", Source: "waha-1", By: domain.ByUser})
	publish(operators, bus.Speaker{Token: oid}, domain.Trigger{Name: "stop", By: domain.ByUser})
	if told, want := s.told(t, 1), []string{"operator: trigger stop applied"}; !slices.Equal(told, want) {
		t.Errorf("the operators' log has %q, want %q", told, want)
	}
	reader := bus.NewClient(operators, bus.ClientConfig{As: oid})
	var acct api.Account
	if err := reader.Query(t.Context(), api.GetQuery, api.GetRequest{Account: "acct-1"}, &acct); err != nil || acct.State != "STOPPED" || acct.Version != 3 {
		t.Errorf("%s, version %d, %v; want STOPPED, 3", acct.State, acct.Version, err)
	}
	var parked api.Inbox
	if err := reader.Query(t.Context(), api.InboxQuery, api.InboxRequest{}, &parked); err != nil || len(parked.Parked) != 2 {
		t.Fatalf("%d parked, %v; want two", len(parked.Parked), err)
	}
	for i, want := range []string{"cannot say by user", `the source is "waha-2"`} {
		if got := parked.Parked[i].Reason; !strings.Contains(got, want) {
			t.Errorf("parked because %q, want %q", got, want)
		}
	}
}

// TestTLS serves both listeners with a certificate.
func TestTLS(t *testing.T) {
	pair := httptest.NewUnstartedServer(nil) // it has a certificate for 127.0.0.1
	pair.StartTLS()
	pair.Close()
	key, err := x509.MarshalPKCS8PrivateKey(pair.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, private := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: pair.Certificate().Raw}, private: {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := serving(t, func(o *Options) {
		o.Config.TLSCert, o.Config.TLSKey, o.Config.Password = cert, private, "s3cret"
	})
	nc, err := bus.Connect(t.Context(), bus.ConnectConfig{URL: s.NATSURL(), User: "muster", Password: "s3cret", CA: cert})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if !nc.TLSRequired() {
		t.Errorf("the NATS listener at %s asks for no TLS", s.NATSURL())
	}
	send(t, bus.NewClient(nc, bus.ClientConfig{}), "acct-1", "start")

	pool := x509.NewCertPool()
	pool.AddCert(pair.Certificate())
	web := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer web.CloseIdleConnections()
	for user, code := range map[string]int{"muster": http.StatusOK, "": http.StatusUnauthorized} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.HTTPAddr()+"/v1/accounts/acct-1", nil)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			r.SetBasicAuth(user, "s3cret")
		}
		resp, err := web.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != code {
			t.Errorf("as %q: %d, want %d", user, resp.StatusCode, code)
		}
	}
	if code, _ := s.ask(t, "", http.MethodGet, "/healthz", ""); code != http.StatusBadRequest {
		t.Errorf("without TLS: %d, want 400", code)
	}
}

// TestAConnectorsTokenIsEnough for a connector that is made with the worker kit:
// hello, beats, what it says, and hearing what is wanted of its account.
func TestAConnectorsTokenIsEnough(t *testing.T) {
	s := serving(t, nil)
	s.everybody(t)
	nc, _ := s.dial(t, auth.Connector)
	connected := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- worker.Serve(ctx, nc, worker.KitConfig{
			Config:   worker.Config{Name: "waha-1", Boot: "b-1"},
			Accounts: []string{"acct-1"},
			Connector: worker.Connector{Connect: func(ctx context.Context, a *worker.Account) error {
				if _, err := a.Say(ctx, "qr_received"); err != nil {
					return err
				}
				close(connected)
				<-ctx.Done()
				return nil
			}},
		})
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	until(t, "the worker lives", func() bool { return s.workerNumbers()["live"] == 1 })
	if code, text := s.ask(t, auth.Operator, http.MethodPost, "/v1/accounts/acct-1/triggers", `{"trigger":"start","by":"user"}`); code != http.StatusOK {
		t.Fatalf("start: %d %s", code, text)
	}
	select {
	case <-connected:
	case <-time.After(within):
		t.Fatal("the connector did not hear that its account is to run, or could not say what came of it")
	}
	if err := nc.LastError(); err != nil {
		t.Errorf("the server has refused something: %v", err)
	}
}

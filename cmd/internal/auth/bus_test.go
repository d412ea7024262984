package auth

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus"
)

// TestSubjects has each role publish and subscribe on the real server.
func TestSubjects(t *testing.T) {
	r := newRig(t, Config{}, nil)
	r.everybody(t)
	js, err := jetstream.New(r.inside)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "MUSTER_EV_00", Subjects: []string{"muster.ev.00.*"}}); err != nil {
		t.Fatal(err)
	}
	table := []struct {
		subject string
		may     string // connector, reader, operator, admin
	}{
		{"muster.cmd.acct-1", "no no no yes"},
		{"muster.in.acct-1", "no no no yes"},
		{"muster.src.@SELF.acct-1", "yes no yes yes"},
		{"muster.in.@SELF.acct-1", "yes no yes yes"},
		{"muster.src.@OTHER.acct-1", "no no no yes"},
		{"muster.in.@OTHER.acct-1", "no no no yes"},
		{"muster.in.@SELF.a.b", "no no no yes"},
		{"muster.src.waha-1.acct-1", "yes no no yes"},
		{"muster.src.a=2Eb.acct-1", "yes no no yes"},
		{"muster.src.waha-2.acct-1", "no no no yes"},
		{"muster.in.waha-1.acct-1", "yes no no yes"},
		{"muster.in.waha-2.acct-1", "no no no yes"},
		{"muster.worker.hello.waha-1", "yes no yes yes"},
		{"muster.worker.beat.waha-2", "no no yes yes"},
		{"muster.q.accounts.get", "yes yes yes yes"},
		{"muster.q.accounts.list", "no yes yes yes"},
		{"muster.q.operator.act", "no no no yes"},
		{"muster.q.inbox.drop", "no no no yes"},
		{"muster.as.SELF.accounts.get", "yes yes yes yes"},
		{"muster.as.SELF.accounts.list", "no yes yes yes"},
		{"muster.as.SELF.operator.act", "no no yes yes"},
		{"muster.as.SELF.tokens.create", "no no no yes"},
		{"muster.as.OTHER.accounts.get", "no no no yes"},
		{"muster.q.tokens.create", "no no no yes"},
		{"muster.q.unheard.of", "no no no yes"},
		{"muster.ev.00.acct-1", "no no no yes"},
		{"muster.op.mute", "no no no yes"},
		{"muster.own.00.acct-1", "no no no yes"},
		{"muster.feed.acct-1", "no no no yes"},
		{"$KV.MUSTER_TOKENS.x", "no no no yes"},
		{"$JS.API.STREAM.INFO.MUSTER_EV_00", "no yes yes yes"},
		{"$JS.API.CONSUMER.CREATE.MUSTER_EV_01.x", "no yes yes yes"},
		{"$JS.API.STREAM.DELETE.MUSTER_EV_00", "no no no yes"},
		{"$JS.API.STREAM.PURGE.MUSTER_EV_00", "no no no yes"},
		{"$JS.API.STREAM.MSG.GET.KV_MUSTER_TOKENS", "no no no yes"},
		{"$JS.API.CONSUMER.CREATE.KV_MUSTER_TOKENS", "no no no yes"},
		{"sub muster.feed.*", "yes yes yes yes"},
		{"sub muster.cmd.*", "no no no yes"},
		{"sub muster.q.tokens.create", "no no no yes"},
		{"sub muster.ev.>", "no no no yes"},
		{"sub _INBOX.>", "no yes yes yes"},
		{"sub _INBOX_muster.>", "no no no yes"},
		{"sub >", "no no no yes"},
	}
	for i, role := range Roles {
		t.Run(string(role), func(t *testing.T) {
			nc, err := nats.Connect(r.server.URL(), nats.UserInfo(r.ids[string(role)][0], r.ids[string(role)][1]),
				nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			for _, row := range table {
				may := strings.Fields(row.may)[i] == "yes"
				subject, sub := strings.CutPrefix(row.subject, "sub ")
				other := Roles[(i+1)%len(Roles)]
				subject = strings.NewReplacer("SELF", r.ids[string(role)][0], "OTHER", r.ids[string(other)][0]).Replace(subject)
				if strings.Contains(subject, "DELETE") && may {
					continue // it would
				}
				refused, err := try(nc, subject, sub)
				if err != nil || refused == may {
					t.Errorf("%s: refused %v, %v; want %v", row.subject, refused, err, !may)
				}
			}
		})
	}
}

// try publishes or subscribes, and says whether the server has refused it: it does
// so before it answers the PING that comes behind.
func try(nc *nats.Conn, subject string, sub bool) (refused bool, err error) {
	if sub {
		s, err := nc.SubscribeSync(subject)
		if err != nil {
			return false, err
		}
		defer func() { _ = s.Unsubscribe() }() // a refused one is gone
	} else if err := nc.Publish(subject, nil); err != nil {
		return false, err
	}
	if err := nc.FlushTimeout(within); err != nil {
		return false, err
	}
	err = nc.LastError()
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(strings.ToLower(err.Error()), `"`+strings.ToLower(subject)+`"`), nil
}

// TestLogins has clients come in by every way there is.
func TestLogins(t *testing.T) {
	r := newRig(t, Config{User: "muster", Password: "s3cret"}, nil)
	r.everybody(t)
	id, secret := r.ids["reader"][0], r.ids["reader"][1]
	for name, tt := range map[string]struct {
		option nats.Option
		in     bool
	}{
		"nobody":                {nats.Name("x"), false},
		"the password":          {nats.UserInfo("muster", "s3cret"), true},
		"a wrong password":      {nats.UserInfo("muster", "s3cre"), false},
		"an empty password":     {nats.UserInfo("muster", ""), false},
		"id and secret":         {nats.UserInfo(id, secret), true},
		"the whole token":       {nats.Token(r.whole("reader")), true},
		"another's secret":      {nats.UserInfo(id, r.ids["admin"][1]), false},
		"the hash":              {nats.UserInfo(id, HashOf(secret)), false},
		"no secret":             {nats.UserInfo(id, ""), false},
		"an unknown id":         {nats.UserInfo("aaaaaaaaaaaaaaaa", ""), false},
		"the process's own":     {nats.UserInfo("muster-internal", ""), false},
		"the process's, a word": {nats.UserInfo("muster-internal", "s3cret"), false},
	} {
		nc, err := nats.Connect(r.server.URL(), tt.option)
		if (err == nil) != tt.in || err != nil && !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v, want in %v", name, err, tt.in)
		}
		if err == nil {
			nc.Close()
		}
	}
}

// TestOpenUntilTheFirstToken: a server that asks nobody is closed by a token, and
// stays closed when that one ends.
func TestOpenUntilTheFirstToken(t *testing.T) {
	r := newRig(t, Config{}, nil)
	closed := make(chan struct{})
	nc, err := nats.Connect(r.server.URL(), nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	id, secret, _ := NewSecret()
	if _, err := r.tokens.Create(t.Context(), Token{ID: id, Hash: HashOf(secret), Role: Reader, By: "test"}); !errors.Is(err, ErrFirst) {
		t.Errorf("a reader's token as the first: %v, want ErrFirst", err)
	}
	r.token(t, "admin", Token{Role: Admin})
	if err := r.server.Drop(r.tokens.Keeps); err != nil {
		t.Fatal(err)
	}
	await(t, closed, "the connection without credentials to be closed")
	if _, err := r.connect(""); !errors.Is(err, bus.ErrNotAllowed) {
		t.Errorf("without credentials: %v, want ErrNotAllowed", err)
	}
	if _, err := r.tokens.Revoke(t.Context(), r.ids["admin"][0]); err != nil {
		t.Fatal(err)
	}
	if _, err := r.connect(""); !errors.Is(err, bus.ErrNotAllowed) {
		t.Errorf("without credentials, once the token is revoked: %v, want ErrNotAllowed", err)
	}
	if err := r.tokens.Check(); !errors.Is(err, bus.ErrCredentialsRequired) {
		t.Errorf("Check with no live token: %v, want ErrCredentialsRequired", err)
	}
}

// TestDropLeavesWhoIsNotAskedYet: a client that has only just connected when tokens
// change is not cut off, but asked.
func TestDropLeavesWhoIsNotAskedYet(t *testing.T) {
	r := newRig(t, Config{}, nil)
	r.everybody(t)
	u, err := url.Parse(r.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	if err := raw.SetDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(raw)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "INFO ") {
		t.Fatalf("the server says %q, %v", lines.Text(), lines.Err())
	}
	if err := r.server.Drop(r.tokens.Keeps); err != nil {
		t.Fatal(err)
	}
	connect := fmt.Sprintf("CONNECT {\"verbose\":false,\"user\":%q,\"pass\":%q}\r\nPING\r\n", r.ids["reader"][0], r.ids["reader"][1])
	if _, err := raw.Write([]byte(connect)); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		switch line := lines.Text(); {
		case line == "PONG":
			return
		case strings.HasPrefix(line, "-ERR"):
			t.Fatal(line)
		}
	}
	t.Fatalf("the connection has ended: %v", lines.Err())
}

// TestRevoke: a revoked token's connection ends, others stay.
func TestRevoke(t *testing.T) {
	changed := make(chan struct{}, 64)
	r := newRig(t, Config{Changed: func() { changed <- struct{}{} }}, nil)
	r.everybody(t)
	closed := make(chan struct{})
	lost, err := nats.Connect(r.server.URL(), nats.Token(r.whole("reader")), nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		t.Fatal(err)
	}
	defer lost.Close()
	kept, err := r.connect("operator")
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if k, err := r.tokens.Revoke(t.Context(), r.ids["reader"][0]); err != nil || k.Revoked.IsZero() {
		t.Fatalf("%+v, %v", k, err)
	}
	await(t, changed, "the change to be told")
	if err := r.server.Drop(r.tokens.Keeps); err != nil {
		t.Fatal(err)
	}
	await(t, closed, "the revoked token's connection to be closed")
	if err := kept.FlushTimeout(within); err != nil {
		t.Errorf("the operator's connection: %v", err)
	}
	if _, err := r.connect("reader"); !errors.Is(err, bus.ErrNotAllowed) {
		t.Errorf("with a revoked token: %v, want ErrNotAllowed", err)
	}
	if _, err := r.tokens.Revoke(t.Context(), "aaaaaaaaaaaaaaaa"); !errors.Is(err, ErrNoToken) {
		t.Errorf("an unknown token: %v, want ErrNoToken", err)
	}
}

// TestExpiry: a connection ends with its token.
func TestExpiry(t *testing.T) {
	r := newRig(t, Config{}, nil)
	r.token(t, "admin", Token{Role: Admin})
	r.token(t, "short", Token{Role: Reader, Expires: time.Now().Add(time.Second)})
	closed := make(chan struct{})
	nc, err := nats.Connect(r.server.URL(), nats.Token(r.whole("short")), nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	await(t, closed, "the connection to end with its token")
	if _, err := r.connect("short"); !errors.Is(err, bus.ErrNotAllowed) {
		t.Errorf("with an expired token: %v, want ErrNotAllowed", err)
	}
}

// TestTokensAreShared: what one process makes and ends is known to another, and to
// the next one, and the secret is nowhere.
func TestTokensAreShared(t *testing.T) {
	r := newRig(t, Config{}, nil)
	changed := make(chan struct{}, 64)
	other := New(Config{Changed: func() { changed <- struct{}{} }})
	defer other.Close()
	if err := other.Load(t.Context(), r.inside, 1, 2); err != nil {
		t.Fatal(err)
	}
	r.token(t, "admin", Token{Role: Admin})
	id, secret := r.ids["admin"][0], r.ids["admin"][1]
	await(t, changed, "the other process to hear of the token")
	if _, ok := other.find(id, secret); !ok {
		t.Error("the other process does not know the token")
	}
	if _, err := r.tokens.Revoke(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	await(t, changed, "the other process to hear of the end")
	if _, ok := other.find(id, secret); ok {
		t.Error("the other process takes a revoked token")
	}
	next := New(Config{})
	defer next.Close()
	if err := next.Load(t.Context(), r.inside, 1, 2); err != nil {
		t.Fatal(err)
	}
	if got := next.List(); len(got) != 1 || got[0].ID != id || got[0].Revoked.IsZero() || !next.Required() {
		t.Errorf("the next process knows %+v", got)
	}
	js, err := jetstream.New(r.inside)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), bucketName)
	if err != nil {
		t.Fatal(err)
	}
	history, err := kv.History(t.Context(), id)
	if err != nil || len(history) != 2 {
		t.Fatalf("%d records, %v; want 2", len(history), err)
	}
	for _, h := range history {
		if strings.Contains(string(h.Value()), secret) {
			t.Errorf("the secret stands in the bucket: %s", h.Value())
		}
	}
	// A record that nobody can read counts as revoked.
	if _, err := kv.Put(t.Context(), "broken", []byte("{")); err != nil {
		t.Fatal(err)
	}
	await(t, changed, "the broken record")
	if got := other.List(); len(got) != 2 || got[0].Revoked.IsZero() || got[1].Revoked.IsZero() {
		t.Errorf("with a broken record: %+v", got)
	}
}

func await[T any](t *testing.T, c <-chan T, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(within):
		t.Fatalf("waited %v for %s", within, what)
	}
}

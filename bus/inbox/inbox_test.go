package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/bus/pubsub"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/codec"
)

func TestEveryMessageIsJudgedOnceAndInOrder(t *testing.T) {
	r := newRig(t, Limits{})
	const accounts, each = 40, 25
	for i := 1; i <= each; i++ { // while nobody reads
		for a := range accounts {
			r.tell(fmt.Sprint("acct-", a), i, i)
		}
	}
	reader, _ := r.read(nil)
	r.empty()
	for a := range accounts {
		if got := r.seqs(fmt.Sprint("acct-", a)); !slices.Equal(got, upTo(each)) {
			t.Fatalf("account %d was told 1 to %d, its history has %v", a, each, got)
		}
	}
	r.tell("late", 1, 3) // and while it reads
	r.empty()
	if got := r.seqs("late"); !slices.Equal(got, upTo(3)) {
		t.Errorf("an account that speaks while the inbox is read: %v", got)
	}
	r.await("the figures", func() bool {
		s := reader.Stats()
		return s.Taken == accounts*each+3 && s.Parked == 0 && s.Repeated == 0 && s.Held == 0 && s.Waiting == 0 && s.Reading
	})
}

func TestWhatAMessageLeavesOut(t *testing.T) {
	r := newRig(t, Limits{})
	before := time.Now().Add(-time.Second)
	r.publish("muster.in.plain", `{"trigger":"start"}`, nil)
	packed, err := codec.AppendTrigger(nil, &domain.Trigger{ID: "mine", Account: "+1.5", Name: "start", At: 5e18, HasAt: true, Expect: domain.NoExpect})
	if err != nil {
		t.Fatal(err)
	}
	r.publish(bus.InboxSubject("+1.5"), string(packed), nats.Header{"content-type": {"application/msgpack"}, "traceparent": {"00-aa-bb-01"}})
	r.read(nil)
	r.empty()
	plain := r.history("plain")
	if len(plain) != 1 || !strings.HasPrefix(plain[0].ID, "in#1@") {
		t.Fatalf("a message without an id: %+v", plain)
	}
	if at := time.Unix(0, plain[0].At); at.Before(before) || at.After(time.Now()) || !strings.HasSuffix(plain[0].ID, fmt.Sprint("@", plain[0].At)) {
		t.Errorf("a message without a time counts as observed at %v, not when it was stored", at)
	}
	given := r.history("+1.5")
	if len(given) != 1 || given[0].ID != "mine" || given[0].Traceparent != "00-aa-bb-01" {
		t.Errorf("a message with an id, as msgpack, with a trace: %+v", given)
	}
}

func TestCloudEventsInBothModes(t *testing.T) {
	r := newRig(t, Limits{})
	r.publish("muster.in.acct-1", `{"by":"user"}`, nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"/s"}, "ce-type": {"muster.start"}, "Ce-Subject": {"acct-1"}, "ce-epoch": {"7"},
	})
	r.publish("muster.in.acct-1", `{"specversion":"1.0","id":"2","source":"/s","type":"muster.stop","subject":"acct-1"}`, nats.Header{"content-type": {"application/cloudevents+json"}})
	r.read(nil)
	r.empty()
	got := r.history("acct-1")
	if len(got) != 2 || got[0].ID != "/s#1" || got[0].Trigger != "start" || got[0].By != domain.ByUser || got[0].Epoch != 7 || got[1].ID != "/s#2" || got[1].Trigger != "stop" {
		t.Errorf("history %+v", got)
	}
}

func TestPoisonIsParkedAndInNobodysWay(t *testing.T) {
	r := newRig(t, Limits{})
	poison := []struct{ subject, body, contentType, reason string }{
		{"muster.in.a", `{"trigger":`, "", "JSON"},
		{"muster.in.a", `{"trigger":"start","colour":"red"}`, "", "colour"},
		{"muster.in.a", `{"trigger":"no_such_thing"}`, "", "no_such_thing"},
		{"muster.in.a", `{"account":"b","trigger":"start"}`, "", `the body is about account "b"`},
		{"muster.in.a", ``, "", "the body is empty"},
		{"muster.in.a", `{"trigger":"start"}`, "text/plain", `content type "text/plain" is not known`},
		{"muster.in.=zz", `{"trigger":"start"}`, "", "bad escape"},
		{"muster.in.a", `{"trigger":"start","data":{"password":"x"}}`, "", "password"},
		{"muster.in.a", `{"trigger":"mark_stuck"}`, "", "mark_stuck"},
	}
	for i, p := range poison {
		h := nats.Header{"X-Sender": {"one", "two"}}
		if p.contentType != "" {
			h.Set("Content-Type", p.contentType)
		}
		r.publish(p.subject, p.body, h)
		r.tell("a", i+1, i+1)
		r.tell("other", i+1, i+1)
	}
	reader, _ := r.read(nil)
	r.empty()
	for _, id := range []string{"a", "other"} {
		if got := r.seqs(id); !slices.Equal(got, upTo(len(poison))) {
			t.Errorf("account %s: %v", id, got)
		}
	}
	parked := r.parked()
	slices.SortFunc(parked, func(a, b Parked) int { return strings.Compare(a.Subject+a.Reason, b.Subject+b.Reason) })
	if len(parked) != len(poison) || reader.Stats().Parked != uint64(len(poison)) {
		t.Fatalf("%d are parked, %d are counted, want %d", len(parked), reader.Stats().Parked, len(poison))
	}
	for _, p := range poison {
		i := slices.IndexFunc(parked, func(q Parked) bool {
			return string(q.Body) == p.body && q.Subject == p.subject && strings.Contains(q.Reason, p.reason) && q.Header.Get("Content-Type") == p.contentType
		})
		if i < 0 {
			t.Errorf("%s %q is not parked with a reason that has %q: %+v", p.subject, p.body, p.reason, parked)
			continue
		}
		if got := parked[i].Header.Values("X-Sender"); !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("its own header is %v", got)
		}
	}
}

// Headers that mean something to the server must not have it act twice: a guard
// would refuse the parked copy for ever.
func TestHeadersOfTheServerAreKeptButNotObeyedTwice(t *testing.T) {
	r := newRig(t, Limits{})
	r.publish("muster.in.a", `junk`, nats.Header{"Nats-Expected-Last-Sequence": {"0"}, "Nats-Msg-Id": {"m"}})
	r.read(nil)
	r.empty()
	p := r.parked()
	if len(p) != 1 || p[0].Header.Get("Nats-Expected-Last-Sequence") != "0" || p[0].Header.Get("Nats-Msg-Id") != "m" {
		t.Fatalf("%+v", p)
	}
	if err := r.store.Retry(t.Context(), p[0].ID); err != nil {
		t.Fatal(err)
	}
	r.await("it to be parked again", func() bool { again := r.parked(); return len(again) == 1 && again[0].ID != p[0].ID })
}

func TestDamagedAndTooLargeAreParked(t *testing.T) {
	r := newRig(t, Limits{})
	r.tell("damaged", 1, 1)
	r.tell("large", 1, 1)
	r.tell("fine", 1, 1)
	r.read(func(c *Config) {
		c.Judge = &choosy{Set: r.set, answer: func(tr domain.Trigger, a command.Answer) command.Answer {
			switch tr.Account {
			case "damaged":
				return command.Answer{Err: &command.DamagedError{Account: tr.Account, Reason: "version 3 is missing"}}
			case "large":
				return command.Answer{Err: &command.TooLargeError{Account: tr.Account, Size: 2, Most: 1}}
			}
			return a
		}}
	})
	r.empty()
	reasons := map[string]string{}
	for _, p := range r.parked() {
		reasons[p.Account] = p.Reason
	}
	if len(reasons) != 2 || !strings.Contains(reasons["damaged"], "version 3 is missing") || !strings.Contains(reasons["large"], "send less data") {
		t.Errorf("parked: %v", reasons)
	}
}

func TestAPanicParksItsMessage(t *testing.T) {
	r := newRig(t, Limits{})
	r.tell("a", 1, 2)
	r.read(func(c *Config) {
		c.Judge = &choosy{Set: r.set, refuse: func(tr domain.Trigger) error {
			if tr.Seq == 1 {
				panic("a fault of ours")
			}
			return nil
		}}
	})
	r.empty()
	p := r.parked()
	if len(p) != 1 || !strings.Contains(p[0].Reason, "a fault of ours") || strings.Contains(p[0].Reason, "goroutine") {
		t.Errorf("%+v", p)
	}
	if got := r.seqs("a"); !slices.Equal(got, []int{2}) {
		t.Errorf("behind it: %v", got)
	}
}

func TestWhatCannotBeJudgedYetWaitsWithItsAccount(t *testing.T) {
	for name, err := range map[string]error{
		"overloaded": command.ErrOverloaded, "contended": command.ErrContended, "not the owner": command.ErrNotOwner,
		"shutting down": command.ErrShuttingDown, "undecided": command.ErrUndecided,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Limits{})
			r.tell("held", 1, 5)
			r.tell("free", 1, 5)
			var refused atomic.Int64
			reader, _ := r.read(func(c *Config) {
				c.Judge = &choosy{Set: r.set, refuse: func(tr domain.Trigger) error {
					if tr.Account == "held" && tr.Seq == 2 && refused.Add(1) <= 3 {
						return err
					}
					return nil
				}}
			})
			r.await("the other account", func() bool { return len(r.history("free")) == 5 })
			r.empty()
			if got := r.seqs("held"); !slices.Equal(got, upTo(5)) {
				t.Errorf("the account that waited: %v", got)
			}
			if s := reader.Stats(); s.Retried != 3 || s.Parked != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A reader that dies leaves messages that were delivered to it. The next one
// begins with them, and not with what stands behind them.
func TestANewReaderBeginsWhereTheOldOneDied(t *testing.T) {
	r := newRig(t, Limits{})
	const accounts, each = 10, 30
	for i := 1; i <= each; i++ {
		for a := range accounts {
			r.tell(fmt.Sprint("acct-", a), i, i)
		}
	}
	// The dead one was given the first 100, and had judged some of them.
	in, err := r.js.Stream(t.Context(), Stream)
	if err != nil {
		t.Fatal(err)
	}
	dead, err := in.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "judge-dead", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := dead.Fetch(100)
	if err != nil {
		t.Fatal(err)
	}
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		w, _ := unmarshaler{&counts{}}.Unmarshal(m, meta)
		w.Metadata[pubsub.MetaSubject] = m.Subject()
		tr, err := triggerOf(w)
		if err != nil {
			t.Fatal(err)
		}
		if meta.Sequence.Stream <= 50 {
			r.set.Do(t.Context(), tr)
		}
		if meta.Sequence.Stream <= 30 {
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	reader, _ := r.read(nil)
	r.empty()
	for a := range accounts {
		if got := r.seqs(fmt.Sprint("acct-", a)); !slices.Equal(got, upTo(each)) {
			t.Fatalf("account %d: %v", a, got)
		}
	}
	if s := reader.Stats(); s.Repeated != 20 {
		t.Errorf("20 messages were judged and not acknowledged, %d are counted", s.Repeated)
	}
}

// An account forgets ids; the history does not.
func TestWhatWasJudgedLongAgoIsNotJudgedAgain(t *testing.T) {
	for _, ids := range []string{"derived", "own"} {
		t.Run(ids, func(t *testing.T) {
			r := newRig(t, Limits{})
			const n = 200 // more than an account remembers
			for i := 1; i <= n; i++ {
				body := fmt.Sprintf(`{"trigger":"start","source":"s","epoch":1,"seq":%d}`, i)
				if ids == "own" {
					body = fmt.Sprintf(`{"id":"id-%d","trigger":"start","source":"s","epoch":1,"seq":%d}`, i, i)
				}
				r.publish("muster.in.a", body, nil)
			}
			for i := 1; i <= n-10; i++ { // judged by a reader whose acknowledgements a power cut took
				raw, err := r.store.in.GetMsg(t.Context(), uint64(i))
				if err != nil {
					t.Fatal(err)
				}
				tr := domain.Trigger{ID: fmt.Sprint("id-", i), Account: "a", Name: "start", Source: "s", Epoch: 1, Seq: int64(i), Expect: domain.NoExpect}
				if ids == "derived" {
					tr.ID = origin{raw.Sequence, raw.Time.UnixNano()}.String()
				}
				if a := r.set.Do(t.Context(), tr); a.Err != nil {
					t.Fatal(a.Err)
				}
			}
			reader, _ := r.read(nil)
			r.empty()
			if got := r.seqs("a"); !slices.Equal(got, upTo(n)) {
				t.Errorf("the history has %v", got)
			}
			if s := reader.Stats(); s.Repeated != n-10 {
				t.Errorf("%d repeated, want %d", s.Repeated, n-10)
			}
		})
	}
}

func TestReadersTakeTurns(t *testing.T) {
	r := newRig(t, Limits{})
	const accounts, each, turns = 8, 40, 6
	var turn atomic.Int64
	for i := range int64(2) {
		store := r.open(Limits{})
		r.read(func(c *Config) {
			c.Store = store
			c.Reads = func() bool { return turn.Load()%2 == i }
		})
	}
	n := 0
	for range turns {
		for range each / turns {
			n++
			for a := range accounts {
				r.tell(fmt.Sprint("acct-", a), n, n)
			}
		}
		turn.Add(1)
	}
	r.empty()
	for a := range accounts {
		if got := r.seqs(fmt.Sprint("acct-", a)); !slices.Equal(got, upTo(n)) {
			t.Fatalf("account %d: %v", a, got)
		}
	}
}

// Two that both believe to be the reader push each other off the stream. Order
// and once hold all the same.
func TestTwoReadersDoNoHarm(t *testing.T) {
	r := newRig(t, Limits{})
	const accounts, each = 8, 50
	for range 2 {
		store := r.open(Limits{})
		r.read(func(c *Config) { c.Store = store })
	}
	for i := 1; i <= each; i++ {
		for a := range accounts {
			r.tell(fmt.Sprint("acct-", a), i, i)
		}
	}
	r.empty()
	for a := range accounts {
		if got := r.seqs(fmt.Sprint("acct-", a)); !slices.Equal(got, upTo(each)) {
			t.Fatalf("account %d: %v", a, got)
		}
	}
}

func TestALostServerIsComeBackTo(t *testing.T) {
	r := newRig(t, Limits{})
	const each = 60
	r.tell("a", 1, each/2)
	r.read(nil)
	r.await("a beginning", func() bool { return len(r.history("a")) > 0 })
	if err := r.server.Restart(); err != nil {
		t.Fatal(err)
	}
	r.await("the connection", r.nc.IsConnected)
	r.tell("a", each/2+1, each)
	r.empty()
	if got := r.seqs("a"); !slices.Equal(got, upTo(each)) {
		t.Errorf("%v", got)
	}
}

// sender stands for the owner of another partition.
type sender struct {
	mu  sync.Mutex
	set *command.Set
	got []domain.Trigger
	err map[domain.AccountID][]error // given one after the other, then none
}

func (s *sender) Send(ctx context.Context, t domain.Trigger) (bus.Reply, error) {
	s.mu.Lock()
	s.got = append(s.got, t)
	if errs := s.err[t.Account]; len(errs) > 0 {
		s.err[t.Account] = errs[1:]
		s.mu.Unlock()
		return bus.Reply{}, errs[0]
	}
	s.mu.Unlock()
	a := s.set.Do(ctx, t)
	return bus.Reply{Verdict: a.Verdict, Partition: a.Partition, Seq: a.Seq}, a.Err
}

func TestWhatBelongsToAnotherGoesToItsOwner(t *testing.T) {
	r := newRig(t, Limits{})
	owner := &sender{set: r.set, err: map[domain.AccountID][]error{
		"away":    {bus.ErrUnreachable, &bus.Error{Code: 503, Title: "overloaded", Retryable: true}},
		"damaged": {&bus.Error{Code: 423, Title: "damaged", Detail: "its history is not whole"}},
	}}
	for _, id := range []string{"mine", "theirs", "away", "damaged"} {
		r.tell(id, 1, 3)
	}
	r.publish("muster.in.theirs", `{"trigger":"retry"}`, nil)
	reader, _ := r.read(func(c *Config) {
		c.Owner = owner
		c.Judge = &choosy{Set: r.set, refuse: func(tr domain.Trigger) error {
			if tr.Account == "mine" {
				return nil
			}
			return command.ErrNotOwner
		}}
	})
	r.empty()
	for id, want := range map[string][]int{"mine": {1, 2, 3}, "theirs": {1, 2, 3, 0}, "away": {1, 2, 3}, "damaged": {2, 3}} {
		if got := r.seqs(id); !slices.Equal(got, want) {
			t.Errorf("account %s: %v, want %v", id, got, want)
		}
	}
	if p := r.parked(); len(p) != 1 || p[0].Reason != "its history is not whole" {
		t.Errorf("parked: %+v", p)
	}
	for _, tr := range owner.got {
		if tr.ID == "" || !tr.HasAt {
			t.Errorf("sent to the owner without an id or a time: %+v", tr)
		}
	}
	if s := reader.Stats(); s.Forwarded != 9 {
		t.Errorf("%d forwarded, want 9", s.Forwarded)
	}
}

func TestAFullInboxRefuses(t *testing.T) {
	r := newRig(t, Limits{Bytes: 4096})
	p, err := NewPublisher(r.nc)
	if err != nil {
		t.Fatal(err)
	}
	tr := domain.Trigger{Account: "a", Name: "start", Reason: domain.Reason{Text: strings.Repeat("x", 500)}, Expect: domain.NoExpect}
	for range 100 {
		if _, err = p.Publish(t.Context(), &tr); err != nil {
			break
		}
	}
	var e *bus.Error
	if !errors.As(err, &e) || !e.Retryable || !strings.Contains(e.Detail, "the inbox is full") {
		t.Fatalf("got %v", err)
	}
	r.read(nil)
	r.empty()
	if seq, err := p.Publish(t.Context(), &tr); err != nil || seq == 0 {
		t.Errorf("with room again: %d, %v", seq, err)
	}
	tr.Reason.Text = strings.Repeat("x", int(r.nc.MaxPayload())-2048)
	if _, err := p.Publish(t.Context(), &tr); !errors.Is(err, bus.ErrInvalid) {
		t.Errorf("too large: %v", err)
	}
}

func TestAnInboxThatIsClosedKeepsWhatItHas(t *testing.T) {
	r := newRig(t, Limits{})
	p, err := NewPublisher(r.nc)
	if err != nil {
		t.Fatal(err)
	}
	tr := domain.Trigger{Account: "a", Name: "start", Expect: domain.NoExpect}
	publish := func() error { _, err := p.Publish(t.Context(), &tr); return err }
	for _, full := range []bool{false, true} {
		if full {
			r.tell("a", 1, 5)
		}
		if err := r.store.Refuse(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if err := publish(); !errors.Is(err, bus.ErrRetryable) {
			t.Errorf("closed: %v", err)
		}
		if err := r.store.Refuse(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if err := publish(); err != nil {
			t.Errorf("open again: %v", err)
		}
	}
	if n, err := r.store.Waiting(t.Context()); n != 7 || err != nil {
		t.Errorf("%d wait, %v", n, err)
	}
}

func TestPublishWithoutAnInbox(t *testing.T) {
	r := newRig(t, Limits{})
	if err := r.js.DeleteStream(t.Context(), Stream); err != nil {
		t.Fatal(err)
	}
	p, err := NewPublisher(r.nc)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Publish(t.Context(), &domain.Trigger{Account: "a", Name: "start", Expect: domain.NoExpect})
	if !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}

func TestOpenAgain(t *testing.T) {
	r := newRig(t, Limits{})
	r.tell("a", 1, 1)
	s := r.open(Limits{Bytes: 1 << 20})
	if n, err := s.Waiting(t.Context()); n != 1 || err != nil {
		t.Errorf("%d wait, %v", n, err)
	}
	in, err := r.js.Stream(t.Context(), Stream)
	if err != nil {
		t.Fatal(err)
	}
	if got := in.CachedInfo().Config.MaxBytes; got != 1<<20 {
		t.Errorf("its size is %d", got)
	}
	if err := r.js.DeleteStream(t.Context(), Stream); err != nil {
		t.Fatal(err)
	}
	if _, err := r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: Stream, Subjects: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), r.nc, Limits{}); err == nil || !strings.Contains(err.Error(), "Muster did not create it") {
		t.Errorf("a stream of somebody else: %v", err)
	}
}

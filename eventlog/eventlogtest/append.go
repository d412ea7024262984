package eventlogtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/musterhq/muster/eventlog"
)

func testAppendAndRead(t *testing.T, open Open) {
	log := open(t, 1)
	begin := time.Now().Add(-time.Minute).UnixNano()
	a := Store(t, log, "a", 0, "one")
	b := Store(t, log, "b", 0, "")
	a2 := Store(t, log, "a", a, "two")
	if a != 1 || b != 2 || a2 != 3 {
		t.Fatalf("sequences %d, %d, %d: want 1, 2, 3", a, b, a2)
	}
	records := MustCollect(t, log.Read(t.Context(), 0, 0))
	var lines []string
	for _, r := range records {
		lines = append(lines, line(r))
		if r.Partition != 0 || r.Time < begin || r.Time > time.Now().Add(time.Minute).UnixNano() {
			t.Errorf("record %d: partition %d, time %v", r.Seq, r.Partition, time.Unix(0, r.Time))
		}
	}
	if want := []string{`1 a "one"`, `2 b ""`, `3 a "two"`}; !slices.Equal(lines, want) {
		t.Errorf("read %q, want %q", lines, want)
	}
}

func testOddAccounts(t *testing.T, open Open) {
	log := open(t, 3)
	odd := []string{"a.b", "a b", "*", ">", "=", "=2E", "a=2Eb", "😀", "+15550100001", "x@s.whatsapp.net", "a", "A", "\xff\xfe", "$JS.API"}
	seqs := map[string]uint64{}
	for _, a := range odd {
		seqs[a] = Store(t, log, a, 0, "of "+a)
	}
	for _, a := range odd {
		r, err := log.Last(t.Context(), a)
		if err != nil || r.Account != a || string(r.Data) != "of "+a || r.Seq != seqs[a] {
			t.Errorf("last of %q: %s, %v", a, line(r), err)
		}
		if all := MustCollect(t, log.Account(t.Context(), a, 0)); len(all) != 1 || all[0].Account != a {
			t.Errorf("account %q: %v", a, all)
		}
	}
}

func testGuardConflicts(t *testing.T, open Open) {
	log := open(t, 1)
	first := Store(t, log, "a", 0, "1")
	Store(t, log, "b", 0, "1")
	second := Store(t, log, "a", first, "2")
	for _, expect := range []uint64{0, first, second + 1, 99} {
		r := log.Append(t.Context(), 0, []eventlog.Entry{{Account: "a", Expect: expect, Data: []byte("x")}})[0]
		if Class(r) != "conflict" {
			t.Errorf("expecting %d where %d is last: %s", expect, second, Class(r))
		}
		var conflict *eventlog.ConflictError
		if errors.As(r.Err, &conflict) && (conflict.Account != "a" || conflict.Last != 0 && conflict.Last != second) {
			t.Errorf("the conflict says %v, the last is %d", conflict, second)
		}
	}
	if n := len(MustCollect(t, log.Read(t.Context(), 0, 0))); n != 3 {
		t.Errorf("%d records after 3 appends and 4 conflicts", n)
	}
	Store(t, log, "a", second, "3")
}

func testGroupOrder(t *testing.T, open Open) {
	log := open(t, 1)
	before := Store(t, log, "a", 0, "a0")
	group := []eventlog.Entry{
		{Account: "a", Expect: before, Data: []byte("a1")},
		{Account: "b", Expect: 0, Data: []byte("b1")},
		{Account: "a", Expect: eventlog.ExpectPrevious, Data: []byte("a2")},
		{Account: "a", Expect: eventlog.ExpectPrevious, Data: []byte("a3")},
		{Account: "b", Expect: eventlog.ExpectPrevious, Data: []byte("b2")},
	}
	results := log.Append(t.Context(), 0, group)
	for i, r := range results {
		if r.Err != nil {
			t.Fatalf("entry %d: %v", i, r.Err)
		}
	}
	for account, want := range map[string][]string{"a": {"a0", "a1", "a2", "a3"}, "b": {"b1", "b2"}} {
		var got []string
		for _, r := range MustCollect(t, log.Account(t.Context(), account, 0)) {
			got = append(got, string(r.Data))
		}
		if !slices.Equal(got, want) {
			t.Errorf("account %s holds %q, want %q", account, got, want)
		}
	}
	for i, r := range results {
		if got := MustCollect(t, log.Read(t.Context(), 0, r.Seq-1)); !bytes.Equal(got[0].Data, group[i].Data) {
			t.Errorf("entry %d: sequence %d holds %q", i, r.Seq, got[0].Data)
		}
	}
}

func testFailureStaysWithinAccount(t *testing.T, open Open) {
	log := open(t, 1)
	Store(t, log, "a", 0, "a0")
	results := log.Append(t.Context(), 0, []eventlog.Entry{
		{Account: "a", Expect: 77, Data: []byte("a1")},
		{Account: "b", Expect: 0, Data: []byte("b1")},
		{Account: "a", Expect: eventlog.ExpectPrevious, Data: []byte("a2")},
		{Account: "b", Expect: eventlog.ExpectPrevious, Data: []byte("b2")},
		{Account: "a", Expect: 1, Data: []byte("a3")}, // good by itself, but it comes after one that failed
	})
	if got, want := Classes(results), []string{"conflict", "stored", "conflict", "stored", "conflict"}; !slices.Equal(got, want) {
		t.Fatalf("results %q, want %q", got, want)
	}
	var data []string
	for _, r := range MustCollect(t, log.Read(t.Context(), 0, 0)) {
		data = append(data, string(r.Data))
	}
	if want := []string{"a0", "b1", "b2"}; !slices.Equal(data, want) {
		t.Errorf("log holds %q, want %q", data, want)
	}
}

func testRefusedByTheContract(t *testing.T, open Open) {
	log := open(t, 4)
	here, there := Accounts(4, 1, 2), Accounts(4, 2, 1)
	results := log.Append(t.Context(), 1, []eventlog.Entry{
		{Account: "", Data: []byte("x")},
		{Account: there[0], Data: []byte("x")},
		{Account: here[0], Expect: eventlog.ExpectPrevious, Data: []byte("x")},
		{Account: here[1], Data: []byte("good")},
	})
	if got, want := Classes(results), []string{"refused", "refused", "refused", "stored"}; !slices.Equal(got, want) {
		t.Errorf("results %q, want %q", got, want)
	}
	if got := Classes(log.Append(t.Context(), 4, []eventlog.Entry{{Account: here[0]}})); got[0] != "refused" {
		t.Errorf("append to partition 4 of 4: %q", got)
	}
	if got := log.Append(t.Context(), 1, nil); len(got) != 0 {
		t.Errorf("append of nothing: %v", got)
	}
}

func testLargeGroup(t *testing.T, open Open) {
	const n = 1000
	log := open(t, 2)
	var group []eventlog.Entry
	for i, a := range Accounts(2, 1, n/2) {
		group = append(group,
			eventlog.Entry{Account: a, Data: fmt.Appendf(nil, "first %d", i)},
			eventlog.Entry{Account: a, Expect: eventlog.ExpectPrevious, Data: fmt.Appendf(nil, "second %d", i)})
	}
	seen := map[uint64]bool{}
	for i, r := range log.Append(t.Context(), 1, group) {
		if r.Err != nil || r.Seq < 1 || r.Seq > n || seen[r.Seq] {
			t.Fatalf("entry %d: sequence %d, %v", i, r.Seq, r.Err)
		}
		seen[r.Seq] = true
	}
	if got := len(MustCollect(t, log.Read(t.Context(), 1, 0))); got != n {
		t.Errorf("read %d records, want %d", got, n)
	}
	big := bytes.Repeat([]byte("x"), 512<<10)
	a := Accounts(2, 0, 1)[0]
	Store(t, log, a, 0, string(big))
	if r, err := log.Last(t.Context(), a); err != nil || !bytes.Equal(r.Data, big) {
		t.Errorf("a record of 512 KiB came back with %d bytes, %v", len(r.Data), err)
	}
}

func testCallerKeepsItsSlices(t *testing.T, open Open) {
	log := open(t, 1)
	group := []eventlog.Entry{{Account: "a", Data: []byte("before")}}
	if r := log.Append(t.Context(), 0, group)[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	copy(group[0].Data, "AFTER!")
	if r, err := log.Last(t.Context(), "a"); err != nil || string(r.Data) != "before" {
		t.Errorf("the log holds %q, %v", r.Data, err)
	}
}

func testEndedContext(t *testing.T, open Open) {
	log := open(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	results := log.Append(ctx, 0, []eventlog.Entry{{Account: "a"}, {Account: "b"}, {Account: "a", Expect: eventlog.ExpectPrevious}})
	if got, want := Classes(results), []string{"unknown", "unknown", "unknown"}; !slices.Equal(got, want) {
		t.Errorf("results %q, want %q", got, want)
	}
}

func testPartitionsAreApart(t *testing.T, open Open) {
	const n, each = 3, 50
	log := open(t, n)
	done := make(chan error, n)
	for p := range n {
		go func() {
			var last uint64
			account := Accounts(n, p, 1)[0]
			for i := range each {
				r := log.Append(t.Context(), p, []eventlog.Entry{{Account: account, Expect: last, Data: fmt.Append(nil, i)}})[0]
				if r.Err != nil {
					done <- fmt.Errorf("partition %d, record %d: %w", p, i, r.Err)
					return
				}
				last = r.Seq
			}
			done <- nil
		}()
	}
	for range n {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for p := range n {
		for i, r := range MustCollect(t, log.Read(t.Context(), p, 0)) {
			if r.Seq != uint64(i+1) || r.Partition != p || string(r.Data) != fmt.Sprint(i) {
				t.Fatalf("partition %d, record %d: %s of partition %d", p, i, line(r), r.Partition)
			}
		}
	}
}

package eventlogtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/musterhq/muster/eventlog"
)

// patience bounds every wait of the suite; a log that needs longer is stuck.
const patience = 30 * time.Second

// Accounts returns n account ids that belong to the partition.
func Accounts(partitions, partition, n int) []string {
	var accounts []string
	for i := 0; len(accounts) < n; i++ {
		if a := fmt.Sprintf("acct-%d", i); eventlog.Partition(a, partitions) == partition {
			accounts = append(accounts, a)
		}
	}
	return accounts
}

// Class names the class of a result: stored, conflict, refused, unknown,
// failed, or the error itself when it is of no class.
func Class(r eventlog.Result) string {
	for _, c := range []struct {
		err  error
		name string
	}{
		{nil, "stored"}, {eventlog.ErrConflict, "conflict"}, {eventlog.ErrRefused, "refused"},
		{eventlog.ErrUnknown, "unknown"}, {eventlog.ErrFailed, "failed"},
	} {
		if c.err == nil && r.Err == nil || c.err != nil && errors.Is(r.Err, c.err) {
			return c.name
		}
	}
	return fmt.Sprintf("no class: %v", r.Err)
}

// Classes is Class of each result.
func Classes(results []eventlog.Result) []string {
	classes := make([]string, len(results))
	for i, r := range results {
		classes[i] = Class(r)
	}
	return classes
}

// Store appends one record and ends the test when it is not stored. It returns the sequence.
func Store(t testing.TB, log eventlog.Log, account string, expect uint64, data string) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p := eventlog.Partition(account, log.Partitions())
	r := log.Append(ctx, p, []eventlog.Entry{{Account: account, Expect: expect, Data: []byte(data)}})[0]
	if r.Err != nil {
		t.Fatalf("append to %q, expecting %d: %v", account, expect, r.Err)
	}
	return r.Seq
}

// Collect returns the records of a sequence and the error that ended it.
func Collect(seq iter.Seq2[eventlog.Record, error]) ([]eventlog.Record, error) {
	var records []eventlog.Record
	for r, err := range seq {
		if err != nil {
			return records, err
		}
		records = append(records, r)
	}
	return records, nil
}

// MustCollect is Collect that ends the test on an error.
func MustCollect(t testing.TB, seq iter.Seq2[eventlog.Record, error]) []eventlog.Record {
	t.Helper()
	records, err := Collect(seq)
	if err != nil {
		t.Fatalf("after %d records: %v", len(records), err)
	}
	return records
}

// line is a record as the suite's tables write it.
func line(r eventlog.Record) string {
	return fmt.Sprintf("%d %s %q", r.Seq, r.Account, r.Data)
}

package snapshot_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/musterhq/muster/eventlog/snapshot"
)

// BenchmarkSnapshot writes and reads 20 000 accounts of about 250 bytes each,
// and reports accounts per second.
func BenchmarkSnapshot(b *testing.B) {
	const count = 20_000
	state := func(i int) []byte {
		return fmt.Appendf(nil, "%d RUNNING whatsapp@2 observe run waha-%d 1767261600%09d %0180d", i, i%7, i*7919, i*104729)
	}
	entries := func(yield func(snapshot.Entry) bool) {
		for i := range count {
			if !yield(snapshot.Entry{Account: fmt.Sprintf("+1555%07d", i), Seq: uint64(i), State: state(i)}) {
				return
			}
		}
	}
	var file bytes.Buffer
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			file.Reset()
			if err := snapshot.Write(&file, header(count), entries); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(count*b.N)/b.Elapsed().Seconds(), "accounts/s")
		b.ReportMetric(float64(file.Len())/count, "B/account")
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			_, all, err := snapshot.Read(bytes.NewReader(file.Bytes()), want())
			if err != nil {
				b.Fatal(err)
			}
			for _, err := range all {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(count*b.N)/b.Elapsed().Seconds(), "accounts/s")
	})
}

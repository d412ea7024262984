package seal_test

import (
	"testing"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/memlog"
)

// What a record costs on its way in and out, with and without its seal: the log
// itself is in memory.
func BenchmarkLog(b *testing.B) {
	e := domain.Event{
		Version: 2, ID: "3EB0C767D82B0A1F9E5C", Account: number, Kind: domain.KindMessage, Key: "wamid.HBgLMTU1NTAxMDAwMDE", Trigger: "message_sent",
		Outcome: domain.Applied, To: "SENT", At: 1767261600000000000, Recorded: 1767261600100000000, Source: "waha-1", Epoch: 3, Seq: 17,
		Data: domain.Data{"chat": "15550177777@c.us"}, Writer: 9, Prev: [16]byte{1},
	}
	data, err := codec.Encode(&e)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		sealed bool
	}{{"plain", false}, {"sealed", true}} {
		inner := memlog.New(1)
		var log eventlog.Log = inner
		if c.sealed {
			log = wrap(b, inner, keysOf(b, 1))
		}
		var last uint64
		b.Run(c.name+"/append", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := log.Append(b.Context(), 0, []eventlog.Entry{{Account: number, Expect: last, Data: data}})
				if r[0].Err != nil {
					b.Fatal(r[0].Err)
				}
				last = r[0].Seq
			}
			for r := range inner.Read(b.Context(), 0, last-1) {
				b.ReportMetric(float64(len(r.Data)), "bytes/record")
			}
		})
		b.Run(c.name+"/read", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := log.Last(b.Context(), number); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package bus

import (
	"testing"

	"github.com/musterhq/muster/domain"
)

func benchReply() Reply {
	return Reply{
		Verdict: domain.Verdict{
			Account: "15550100001@s.whatsapp.net", Trigger: "connection_lost", Outcome: domain.Applied, From: "RUNNING", To: "DISCONNECTED",
			Version: 123456, Reason: "428",
		},
		Partition: 3, Seq: 1234567,
	}
}

func BenchmarkAppendReply(b *testing.B) {
	r := benchReply()
	buf := make([]byte, 0, 512)
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = r.AppendJSON(buf[:0])
		}
	})
	b.Run("msgpack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = r.AppendMsgpack(buf[:0])
		}
	})
}

func BenchmarkParseReply(b *testing.B) {
	r := benchReply()
	for name, body := range map[string][]byte{"json": r.AppendJSON(nil), "msgpack": r.AppendMsgpack(nil)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseReply(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

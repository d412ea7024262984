package codec_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/codec"
)

// plainRecord is how a record decodes with msgpack/v5 alone, by struct tags:
// what the hand-written Reader is measured against.
type plainRecord struct {
	V  uint64             `msgpack:"v"`
	N  uint64             `msgpack:"n"`
	ID string             `msgpack:"id"`
	A  string             `msgpack:"a"`
	K  uint64             `msgpack:"k"`
	M  string             `msgpack:"m"`
	IN string             `msgpack:"in"`
	MD string             `msgpack:"md"`
	LB map[string]string  `msgpack:"lb"`
	Y  string             `msgpack:"y"`
	T  string             `msgpack:"t"`
	O  uint64             `msgpack:"o"`
	F  string             `msgpack:"f"`
	S  string             `msgpack:"s"`
	AT int64              `msgpack:"at"`
	RT int64              `msgpack:"rt"`
	SR string             `msgpack:"sr"`
	EP int64              `msgpack:"ep"`
	SQ int64              `msgpack:"sq"`
	BY string             `msgpack:"by"`
	RC string             `msgpack:"rc"`
	RX string             `msgpack:"rx"`
	VR string             `msgpack:"vr"`
	D  map[string]any     `msgpack:"d"`
	CS []domain.Condition `msgpack:"cs"`
	CE []struct {
		N string `msgpack:"n"`
		S string `msgpack:"s"`
	} `msgpack:"ce"`
	FX uint64 `msgpack:"fx"`
	CO string `msgpack:"co"`
	CA string `msgpack:"ca"`
	TP string `msgpack:"tp"`
	W  uint64 `msgpack:"w"`
	PH []byte `msgpack:"ph"`
}

// benchEvents are two events as they come by the million: a session trigger
// with an id, and a message status with data.
func benchEvents() map[string]domain.Event {
	return map[string]domain.Event{
		"session": {
			Version: 17, ID: "018f3c1e-7a52-7c3d-9b1e-0242ac120002", Account: "+15550100001", Kind: domain.KindSession,
			Trigger: "connection_lost", Outcome: domain.Applied, From: "RUNNING", To: "DISCONNECTED",
			At: 1767261600123456789, Recorded: 1767261600987654321, Source: "waha-1", Epoch: 1767261000000, Seq: 17,
			By: domain.ByRemote, Reason: domain.Reason{Code: "515"}, Effects: domain.EffectFlap, Writer: 42, Prev: hash(9),
		},
		"message": {
			Version: 18, ID: "018f3c1e-7a52-7c3d-9b1e-0242ac120003", Account: "+15550100001", Kind: domain.KindMessage,
			Key: "wamid.HBgLMTU1NTAxMDAwMDEVAgARGBI5", Trigger: "message_sent", Outcome: domain.Applied,
			From: "PENDING", To: "SENT", At: 1767261600123456789, Recorded: 1767261600987654321, Source: "waha-1",
			Epoch: 1767261000000, Seq: 18, Data: domain.Data{"to": "+15550109999", "reply_within": int64(900)},
			Writer: 42, Prev: hash(10),
		},
	}
}

// readers are the two ways to read with a Reader.
func readers() map[string]func([]byte, *domain.Event) error {
	return map[string]func([]byte, *domain.Event) error{"alias": codec.NewReader().Read, "fold": codec.NewReader().Fold}
}

func benchRecords(tb testing.TB) map[string][]byte {
	tb.Helper()
	out := map[string][]byte{}
	for name, e := range benchEvents() {
		b, err := codec.Encode(&e)
		if err != nil {
			tb.Fatal(err)
		}
		out[name] = b
	}
	return out
}

func BenchmarkEncode(b *testing.B) {
	for name, e := range benchEvents() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 0, 1024)
			for b.Loop() {
				var err error
				if buf, err = codec.AppendRecord(buf[:0], &e); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(buf)), "B/record")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, record := range benchRecords(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := codec.Decode(record); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReader(b *testing.B) {
	for name, record := range benchRecords(b) {
		for mode, read := range readers() {
			b.Run(name+"/"+mode, func(b *testing.B) {
				b.ReportAllocs()
				var e domain.Event
				for b.Loop() {
					if err := read(record, &e); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkReaderRatio runs the Reader and msgpack/v5's struct decoding (a
// decoder that is used again, its fastest way to read a map) by turns and
// reports how many times faster the Reader is. It compares the best turn of
// each, so that what else the machine does counts for neither.
func BenchmarkReaderRatio(b *testing.B) {
	for name, record := range benchRecords(b) {
		for mode, read := range readers() {
			b.Run(name+"/"+mode, func(b *testing.B) {
				ours, theirs := time.Hour, time.Hour
				var e domain.Event
				var src bytes.Reader
				dec := msgpack.NewDecoder(&src)
				for b.Loop() {
					ours = min(ours, perCall(func() error { return read(record, &e) }))
					theirs = min(theirs, perCall(func() error {
						var p plainRecord
						src.Reset(record)
						dec.Reset(&src)
						return dec.Decode(&p)
					}))
				}
				b.ReportMetric(float64(theirs)/float64(ours), "x-faster")
				b.ReportMetric(float64(ours), "reader-ns")
				b.ReportMetric(float64(theirs), "msgpack-ns")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// perCall runs f for one turn and returns the time of one call.
func perCall(f func() error) time.Duration {
	const turn = 200
	began := time.Now()
	for range turn {
		if err := f(); err != nil {
			panic(err)
		}
	}
	return time.Since(began) / turn
}

func BenchmarkHash(b *testing.B) {
	record := benchRecords(b)["session"]
	for b.Loop() {
		codec.Hash(record)
	}
}

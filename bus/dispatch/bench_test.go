//go:build unix

package dispatch

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/codec"
)

// callers is how many requests the benchmarks have under way.
const callers = 256

// BenchmarkEcho is bare request/reply with bodies of the same size, the
// measure for the others.
func BenchmarkEcho(b *testing.B) {
	r := newRig(b, Config{Judge: &fakeJudge{}})
	nc, err := r.server.Connect("echo")
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	reply := bus.Reply{Verdict: applied(benchTrigger("acct-0"), 1).Verdict, Seq: 1}
	answer := reply.AppendMsgpack(nil)
	if _, err := nc.Subscribe("echo.*", func(m *nats.Msg) { _ = nc.Publish(m.Reply, answer) }); err != nil {
		b.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		b.Fatal(err)
	}
	subjects, bodies := commands(b, "echo.")
	measure(b, func(i int) error {
		_, err := r.client.Request(subjects[i], bodies[i], within)
		return err
	})
}

// BenchmarkRaw is a prepared body through the endpoint: decoding, the closure,
// encoding, NATS micro's own bookkeeping.
func BenchmarkRaw(b *testing.B) {
	r := newRig(b, Config{Judge: instant{}})
	subjects, bodies := commands(b, "muster.cmd.")
	measure(b, func(i int) error {
		_, err := r.client.Request(subjects[i], bodies[i], within)
		return err
	})
}

// BenchmarkRawWithHeaders is BenchmarkRaw with a Content-Type on both sides.
func BenchmarkRawWithHeaders(b *testing.B) {
	r := newRig(b, Config{Judge: instant{}})
	subjects, bodies := commands(b, "muster.cmd.")
	header := nats.Header{"Content-Type": {"application/msgpack"}}
	measure(b, func(i int) error {
		_, err := r.client.RequestMsg(&nats.Msg{Subject: subjects[i], Data: bodies[i], Header: header}, within)
		return err
	})
}

// BenchmarkClient is the Go client through the endpoint.
func BenchmarkClient(b *testing.B) {
	for _, json := range []bool{false, true} {
		b.Run(fmt.Sprintf("json=%v", json), func(b *testing.B) {
			r := newRig(b, Config{Judge: instant{}})
			c := bus.NewClient(r.client, bus.ClientConfig{JSON: json})
			measure(b, func(i int) error {
				_, err := c.Send(b.Context(), benchTrigger(fmt.Sprintf("acct-%d", i)))
				return err
			})
		})
	}
}

// BenchmarkHandle is the endpoint alone: decode, submit, encode, publish.
func BenchmarkHandle(b *testing.B) {
	r := newRig(b, Config{Judge: instant{}})
	t := benchTrigger("acct-0")
	packed, err := codec.AppendTrigger(nil, &t)
	if err != nil {
		b.Fatal(err)
	}
	for name, body := range map[string][]byte{"msgpack": packed, "json": t.AppendJSON(nil)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.endpoint.take(incoming{subject: "muster.cmd.acct-0", reply: "nobody", data: body})
			}
		})
	}
}

// BenchmarkParse is the decoding alone.
func BenchmarkParse(b *testing.B) {
	t := benchTrigger("acct-0")
	packed, err := codec.AppendTrigger(nil, &t)
	if err != nil {
		b.Fatal(err)
	}
	for name, in := range map[string]incoming{
		"msgpack": {subject: "muster.cmd.acct-0", data: packed},
		"json":    {subject: "muster.cmd.acct-0", data: t.AppendJSON(nil)},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, bad := read(&in); bad != nil {
					b.Fatal(bad.reason)
				}
			}
		})
	}
}

// instant judges at once.
type instant struct{}

func (instant) Submit(t domain.Trigger, done func(command.Answer)) error {
	done(applied(t, 1))
	return nil
}

func benchTrigger(account string) domain.Trigger {
	return domain.Trigger{
		ID: "3f0c1a52-7d1f", Account: domain.AccountID(account), Name: "connection_lost", Source: "waha-1", Epoch: 1767225600000, Seq: 17,
		At: 1767225600123000000, HasAt: true, Reason: domain.Reason{Code: "428"}, Expect: domain.NoExpect,
	}
}

func commands(b *testing.B, prefix string) (subjects []string, bodies [][]byte) {
	for i := range callers {
		t := benchTrigger(fmt.Sprintf("acct-%d", i))
		body, err := codec.AppendTrigger(nil, &t)
		if err != nil {
			b.Fatal(err)
		}
		subjects, bodies = append(subjects, prefix+string(t.Account)), append(bodies, body)
	}
	return subjects, bodies
}

// cpu is the processor time that this process has used: on a busy machine it
// says more than the clock.
func cpu(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure runs b.N requests from many callers and reports their rate, and the
// processor time of client, server and endpoint together.
func measure(b *testing.B, request func(caller int) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	before := cpu(b)
	b.ResetTimer()
	for c := range callers {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if err := request(c); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/req")
}

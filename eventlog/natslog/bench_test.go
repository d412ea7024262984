package natslog_test

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/natslog/barrier"
	"github.com/musterhq/muster/eventlog/natstest"
)

const benchBytes = 200 // of one record

// BenchmarkAppend appends groups of distinct accounts to one partition, in each
// sync mode, and beside them publishes the same records bare: one connection,
// one reply subscription, the same guard, acks only counted. One op is one record.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1, 16, 256, 1000} {
		for _, mode := range []barrier.Mode{barrier.SyncInterval, barrier.SyncGroup, barrier.SyncAlways} {
			b.Run(fmt.Sprintf("group=%d/sync=%s", size, mode), func(b *testing.B) {
				s := natstest.Run(b, func(o *server.Options) { o.SyncAlways = mode == barrier.SyncAlways })
				bar := openBarrier(b, barrier.Config{StoreDir: s.StoreDir(), Partitions: 1, Mode: mode, MarkFile: b.TempDir() + "/marks"})
				log := open(b, s.Conn(b), natslog.Config{Partitions: 1, Barrier: bar})
				group := benchGroup(size)
				b.ResetTimer()
				for n := 0; n < b.N; n += size {
					for i, r := range log.Append(b.Context(), 0, group) {
						if r.Err != nil {
							b.Fatal(r.Err)
						}
						group[i].Expect = r.Seq
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			})
		}
		b.Run(fmt.Sprintf("group=%d/bare", size), func(b *testing.B) { benchBare(b, size) })
	}
}

func benchGroup(size int) []eventlog.Entry {
	group := make([]eventlog.Entry, size)
	for i := range group {
		group[i] = eventlog.Entry{Account: fmt.Sprintf("acct-%06d", i), Data: make([]byte, benchBytes)}
	}
	return group
}

// benchBare publishes groups and waits for the count of acks. Its guards are
// right because the stream's sequences are known when one publisher writes.
func benchBare(b *testing.B, size int) {
	s := natstest.Run(b)
	nc := s.Conn(b)
	open(b, nc, natslog.Config{Partitions: 1})
	inbox := nc.NewInbox()
	var acks atomic.Int64
	done := make(chan struct{}, 1)
	_, err := nc.Subscribe(inbox, func(m *nats.Msg) {
		if acks.Add(1)%int64(size) == 0 {
			done <- struct{}{}
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	subjects := make([]string, size)
	for i := range subjects {
		subjects[i] = fmt.Sprintf("muster.ev.00.acct-%06d", i)
	}
	data := make([]byte, benchBytes)
	last := 0
	b.ResetTimer()
	for n := 0; n < b.N; n += size {
		for i := range size {
			expect := 0
			if last > 0 {
				expect = last - size + i + 1
			}
			h := nats.Header{"Nats-Expected-Last-Subject-Sequence": {strconv.Itoa(expect)}}
			if err := nc.PublishMsg(&nats.Msg{Subject: subjects[i], Reply: inbox, Header: h, Data: data}); err != nil {
				b.Fatal(err)
			}
		}
		<-done
		last += size
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	if stream, err := js.Stream(b.Context(), "MUSTER_EV_00"); err != nil || stream.CachedInfo().State.LastSeq != uint64(last) {
		b.Errorf("the bare publisher was refused: %v", err)
	}
}

// BenchmarkRead reads 300 000 records, with the log and with the client's own
// ordered consumer. One op is one record.
func BenchmarkRead(b *testing.B) {
	const records = 300_000
	s := natstest.Run(b)
	nc := s.Conn(b)
	log := open(b, nc, natslog.Config{Partitions: 1})
	fillLog(b, log, records/1000, 1000, benchBytes)
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("log", func(b *testing.B) {
		perRecord(b, records, func() (n int) {
			for _, err := range log.Read(b.Context(), 0, 0) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			return n
		})
	})
	b.Run("ordered consumer, Consume", func(b *testing.B) {
		perRecord(b, records, func() int {
			c, err := js.OrderedConsumer(b.Context(), "MUSTER_EV_00", jetstream.OrderedConsumerConfig{})
			if err != nil {
				b.Fatal(err)
			}
			done := make(chan struct{})
			n := 0
			cc, err := c.Consume(func(jetstream.Msg) {
				if n++; n == records {
					close(done)
				}
			}, jetstream.PullMaxMessages(10_000))
			if err != nil {
				b.Fatal(err)
			}
			<-done
			cc.Stop()
			return n
		})
	})
	b.Run("ordered consumer, Messages", func(b *testing.B) {
		perRecord(b, records, func() (n int) {
			c, err := js.OrderedConsumer(b.Context(), "MUSTER_EV_00", jetstream.OrderedConsumerConfig{})
			if err != nil {
				b.Fatal(err)
			}
			mc, err := c.Messages(jetstream.PullMaxMessages(10_000))
			if err != nil {
				b.Fatal(err)
			}
			defer mc.Stop()
			for n < records {
				if _, err := mc.Next(); err != nil {
					b.Fatal(err)
				}
				n++
			}
			return n
		})
	})
}

func perRecord(b *testing.B, records int, read func() int) {
	b.Helper()
	n := 0
	for b.Loop() {
		if got := read(); got != records {
			b.Fatalf("read %d of %d", got, records)
		}
		n += records
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
}

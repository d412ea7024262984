package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/musterhq/muster/cmd/internal/offline"
	"github.com/musterhq/muster/cmd/internal/sim"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/archive"
	"github.com/musterhq/muster/eventlog/codec"
)

// ReplayConfig says what is replayed.
type ReplayConfig struct {
	Archive    string // folder of an archive that is used again, or made when it is not there; "" = a scratch one
	Dir        string // where a scratch archive is made; "" = the system's
	Events     int    // of an archive that is made
	Accounts   int
	Partitions int
	Rounds     int // how often each is measured, in turn; medians count
	Say        func(string)
}

// ReplayFigure is one thing measured with so many cores.
type ReplayFigure struct {
	What    string  `json:"what"` // scan, decode, views, fold, all
	Cores   int     `json:"cores"`
	Rate    float64 `json:"events_per_s"`
	CPURate float64 `json:"events_per_cpu_s"` // by the processor time that was used: what a machine without other work gives
	ToScan  float64 `json:"to_scan"`          // by the scan with as many cores
}

// ReplayReport is what was measured.
type ReplayReport struct {
	Events        int64          `json:"events"`
	Accounts      int            `json:"accounts"`
	Partitions    int            `json:"partitions"`
	Bytes         int64          `json:"archive_bytes"`
	BytesPerEvent float64        `json:"archive_bytes_per_event"`
	Mix           ReplayMix      `json:"mix"`
	Figures       []ReplayFigure `json:"figures"`
	// Decoder is the rate of the general decoder (msgpack/v5) over the same
	// records on one core, DecoderRatio that of the replay's own by it.
	Decoder      float64 `json:"msgpack_events_per_s"`
	DecoderRatio float64 `json:"reader_to_msgpack"`
	Resident     int64   `json:"rss_bytes"` // with the folded fleet in memory
	PerAccount   float64 `json:"rss_bytes_per_account"`
	Digest       string  `json:"digest"`
}

// ReplayMix is what the history is about.
type ReplayMix struct {
	// Shares of all events.
	Sessions      float64 `json:"sessions"` // and the account's own: marks, settings
	Messages      float64 `json:"messages"`
	Conversations float64 `json:"conversations"`
	// Hours is from the first event to the last.
	Hours float64 `json:"hours"`
}

// Replay measures replays of an archive: the scan alone, the records read, the
// views, the fold with the counts of states and the times to RUNNING, and the
// whole of what `muster replay` does.
func Replay(ctx context.Context, cfg ReplayConfig) (*ReplayReport, error) {
	dir := cfg.Archive
	if dir == "" {
		scratch, err := os.MkdirTemp(cfg.Dir, "muster-bench-")
		if err != nil {
			return nil, fmt.Errorf("make a scratch folder: %w", err)
		}
		defer os.RemoveAll(scratch)
		dir = scratch
	}
	if _, err := archive.ReadManifest(dir); errors.Is(err, fs.ErrNotExist) {
		cfg.Say(fmt.Sprintf("making an archive of %d events", cfg.Events))
		if err := MakeArchive(ctx, dir, cfg.Partitions, cfg.Accounts, cfg.Events); err != nil {
			return nil, err
		}
	}
	a, err := archive.OpenArchive(dir)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	r := &replaying{a: a, rep: &ReplayReport{Partitions: a.Partitions()}, say: cfg.Say}
	for _, p := range a.Manifest.Partitions {
		for _, s := range p.Segments {
			r.rep.Bytes += s.Bytes
			r.rep.Events += int64(s.Records)
		}
	}
	r.rep.BytesPerEvent = float64(r.rep.Bytes) / float64(max(1, r.rep.Events))
	return r.rep, r.run(ctx, max(1, cfg.Rounds))
}

// MakeArchive writes the history of a simulated fleet, as its server would have
// stored it, into an archive.
func MakeArchive(ctx context.Context, dir string, partitions, accounts, events int) (err error) {
	incarnations := make([]string, partitions)
	for i := range incarnations {
		incarnations[i] = "simulated"
	}
	w, err := archive.Open(dir, incarnations, archive.Limits{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	fleet, err := sim.NewJudged(sim.Config{Accounts: accounts, Seed: 1, IDs: "sim-"})
	if err != nil {
		return err
	}
	seqs := make([]uint64, partitions)
	last := map[domain.AccountID][16]byte{}
	for e := range fleet.Events() {
		if events--; events < 0 {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		e.Prev = last[e.Account]
		data, err := codec.Encode(e)
		if err != nil {
			return err
		}
		last[e.Account] = codec.Hash(data)
		p := eventlog.Partition(string(e.Account), partitions)
		seqs[p]++
		if err := w.Append(p, eventlog.Record{Partition: p, Seq: seqs[p], Account: string(e.Account), Data: data, Time: e.Recorded}); err != nil {
			return err
		}
	}
	for p := range partitions {
		if err := w.Seal(p); err != nil {
			return err
		}
	}
	return nil
}

// replaying measures.
type replaying struct {
	a   *archive.Archive
	rep *ReplayReport
	say func(string)
}

// measured is one thing to measure: it returns how many events it passed over.
type measured struct {
	what string
	run  func(ctx context.Context, cores int) (int64, error)
}

func (r *replaying) run(ctx context.Context, rounds int) error {
	things := []measured{
		{"scan", r.scan},
		{"views", r.replay(offline.Options{ViewsOnly: true, NoTransitions: true})},
		{"fold", r.replay(offline.Options{NoTransitions: true})},
		{"all", r.replay(offline.Options{})},
	}
	cores := []int{1}
	if runtime.NumCPU() > 1 {
		cores = append(cores, 2)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, n := range cores {
		runtime.GOMAXPROCS(n)
		rates := map[string][]float64{}
		cpu := map[string][]float64{}
		for range rounds {
			for _, m := range things {
				rate, byCPU, err := timed(ctx, m, n)
				if err != nil {
					return fmt.Errorf("%s: %w", m.what, err)
				}
				rates[m.what], cpu[m.what] = append(rates[m.what], rate), append(cpu[m.what], byCPU)
			}
		}
		for _, m := range things {
			f := ReplayFigure{What: m.what, Cores: n, Rate: median(rates[m.what]), CPURate: median(cpu[m.what])}
			f.ToScan = f.Rate / median(rates["scan"])
			r.rep.Figures = append(r.rep.Figures, f)
			r.say(fmt.Sprintf("%-6s %d cores: %10.0f events/s, %10.0f by processor time, %.2f of the scan", f.What, n, f.Rate, f.CPURate, f.ToScan))
		}
	}
	runtime.GOMAXPROCS(1)
	return errors.Join(r.mix(ctx), r.decoders(ctx), r.memory(ctx))
}

// mix counts what the records are about.
func (r *replaying) mix(ctx context.Context) error {
	var kinds [domain.KindForeign + 1]int64
	first, last := int64(math.MaxInt64), int64(0)
	n, err := r.each(ctx, 1, func() func(*archive.Block) error {
		reader := codec.NewReader()
		reader.SkipData = true
		return func(b *archive.Block) error {
			for _, entry := range b.Entries {
				var e domain.Event
				if err := reader.Read(entry.Data, &e); err != nil {
					return err
				}
				kinds[e.Kind]++
				first, last = min(first, e.Recorded), max(last, e.Recorded)
			}
			return nil
		}
	})
	if err != nil || n == 0 {
		return err
	}
	m := &r.rep.Mix
	m.Messages = float64(kinds[domain.KindMessage]) / float64(n)
	m.Conversations = float64(kinds[domain.KindConversation]) / float64(n)
	m.Sessions = float64(n-kinds[domain.KindMessage]-kinds[domain.KindConversation]) / float64(n)
	m.Hours = time.Duration(last - first).Hours()
	return nil
}

// timed measures one run: events per second, and per second of processor time.
func timed(ctx context.Context, m measured, cores int) (rate, byCPU float64, err error) {
	debug.FreeOSMemory()
	begin, used := time.Now(), processorTime()
	n, err := m.run(ctx, cores)
	if err != nil {
		return 0, 0, err
	}
	return float64(n) / time.Since(begin).Seconds(), float64(n) / (processorTime() - used).Seconds(), nil
}

func (r *replaying) replay(o offline.Options) func(context.Context, int) (int64, error) {
	return func(ctx context.Context, cores int) (int64, error) {
		o.Machines, o.Workers = lifecycle.Registry(), cores
		f, err := offline.Replay(ctx, r.a, o)
		if err != nil {
			return 0, err
		}
		return f.Events, nil
	}
}

// scan unpacks all records and looks at none.
func (r *replaying) scan(ctx context.Context, cores int) (int64, error) {
	return r.each(ctx, cores, func() func(*archive.Block) error { return func(*archive.Block) error { return nil } })
}

// each passes over all partitions, so many at a time. look makes what looks at
// the blocks of one.
func (r *replaying) each(ctx context.Context, workers int, look func() func(*archive.Block) error) (int64, error) {
	type counted struct {
		n   int64
		err error
	}
	partitions := make(chan int)
	results := make(chan counted)
	for range workers {
		go func() {
			var c counted
			for p := range partitions {
				n, err := r.partition(ctx, p, look())
				c.n, c.err = c.n+n, errors.Join(c.err, err)
			}
			results <- c
		}()
	}
	for p := range r.a.Partitions() {
		partitions <- p
	}
	close(partitions)
	var sum counted
	for range workers {
		c := <-results
		sum.n, sum.err = sum.n+c.n, errors.Join(sum.err, c.err)
	}
	return sum.n, sum.err
}

func (r *replaying) partition(ctx context.Context, p int, look func(*archive.Block) error) (n int64, err error) {
	for _, s := range r.a.Segments(p) {
		sc := s.Scan()
		var b archive.Block
		for ; err == nil && ctx.Err() == nil; n += int64(len(b.Entries)) {
			if err = sc.Next(&b); err != nil {
				break
			}
			err = look(&b)
		}
		sc.Close()
		if err == io.EOF {
			err = nil
		}
		if err != nil || ctx.Err() != nil {
			return n, errors.Join(err, ctx.Err())
		}
	}
	return n, nil
}

// decoded is about how many records the general decoder is tried on.
const decoded = 500_000

var errEnough = errors.New("enough was decoded")

// decoders compares the replay's own reader with the general decoder over the
// same records, the time of unpacking left out.
func (r *replaying) decoders(ctx context.Context) error {
	var own, general time.Duration
	var n int
	_, err := r.each(ctx, 1, func() func(*archive.Block) error {
		reader := codec.NewReader()
		return func(b *archive.Block) error {
			if n >= decoded {
				return errEnough
			}
			begin := processorTime()
			for _, e := range b.Entries {
				var event domain.Event
				if err := reader.Fold(e.Data, &event); err != nil {
					return err
				}
			}
			middle := processorTime()
			for _, e := range b.Entries {
				if _, err := codec.Decode(e.Data); err != nil {
					return err
				}
			}
			own, general, n = own+middle-begin, general+processorTime()-middle, n+len(b.Entries)
			return nil
		}
	})
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("decode: %w", err)
	}
	r.rep.Decoder = float64(n) / general.Seconds()
	r.rep.DecoderRatio = general.Seconds() / own.Seconds()
	r.say(fmt.Sprintf("the general decoder: %.0f events/s on one core, the reader of replays %.1f times that", r.rep.Decoder, r.rep.DecoderRatio))
	return nil
}

// memory is what is resident with the folded fleet.
func (r *replaying) memory(ctx context.Context) error {
	f, err := offline.Replay(ctx, r.a, offline.Options{Machines: lifecycle.Registry()})
	if err != nil {
		return err
	}
	debug.FreeOSMemory()
	r.rep.Resident = resident(os.Getpid())
	r.rep.Accounts = len(f.Accounts())
	r.rep.PerAccount = float64(r.rep.Resident) / float64(max(1, len(f.Accounts())))
	r.rep.Digest = f.Digest()
	r.say(fmt.Sprintf("%d bytes resident, %.0f for each of %d accounts", r.rep.Resident, r.rep.PerAccount, r.rep.Accounts))
	return nil
}

// processorTime is what this process has used of all processors.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

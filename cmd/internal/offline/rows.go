package offline

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/musterhq/muster/domain"
)

// Row is an exported event as CSV and Parquet have it. Times are UTC.
type Row struct {
	Account    string    `parquet:"account,dict"`
	Version    int64     `parquet:"version"`
	At         time.Time `parquet:"at,timestamp(nanosecond)"`
	Recorded   time.Time `parquet:"recorded,timestamp(nanosecond)"`
	Kind       string    `parquet:"kind,dict"`
	Key        string    `parquet:"key"`
	Machine    string    `parquet:"machine,dict"`
	Trigger    string    `parquet:"trigger,dict"`
	Outcome    string    `parquet:"outcome,dict"`
	From       string    `parquet:"from_state,dict"`
	To         string    `parquet:"to_state,dict"`
	Source     string    `parquet:"source,dict"`
	Epoch      int64     `parquet:"epoch"`
	Seq        int64     `parquet:"seq"`
	By         string    `parquet:"by,dict"`
	ReasonCode string    `parquet:"reason_code,dict"`
	ReasonText string    `parquet:"reason_text"`
	Verdict    string    `parquet:"verdict,dict"` // why it was rejected or stale
	ID         string    `parquet:"id"`
	Data       string    `parquet:"data"` // JSON; "" = none
	Partition  int32     `parquet:"partition"`
	Sequence   int64     `parquet:"sequence"`
}

// kindNames are the words for what an event is about.
var kindNames = map[domain.Kind]string{domain.KindSession: "session", domain.KindMessage: "message", domain.KindConversation: "conversation",
	domain.KindAccount: "account", domain.KindMark: "mark", domain.KindForeign: "foreign"}

func rowOf(x *Exported) (Row, error) {
	data := ""
	if len(x.Data) > 0 {
		b, err := json.Marshal(x.Data)
		if err != nil {
			return Row{}, err
		}
		data = string(b)
	}
	return Row{
		Account: string(x.Account), Version: int64(x.Version), At: time.Unix(0, x.At).UTC(), Recorded: time.Unix(0, x.Recorded).UTC(),
		Kind: kindNames[x.Kind], Key: x.Key, Machine: x.Machine, Trigger: x.Trigger, Outcome: x.Outcome.String(), From: x.From, To: x.To,
		Source: x.Source, Epoch: x.Epoch, Seq: x.Seq, By: string(x.By), ReasonCode: x.Reason.Code, ReasonText: x.Reason.Text, Verdict: x.Verdict,
		ID: x.ID, Data: data, Partition: int32(x.Partition), Sequence: int64(x.Sequence),
	}, nil
}

// columns are the names of a row's fields, in their order.
var columns = []string{"account", "version", "at", "recorded", "kind", "key", "machine", "trigger", "outcome", "from_state", "to_state", "source",
	"epoch", "seq", "by", "reason_code", "reason_text", "verdict", "id", "data", "partition", "sequence"}

type csvSink struct {
	w      *csv.Writer
	headed bool
}

func newCSV(w io.Writer) *csvSink { return &csvSink{w: csv.NewWriter(w)} }

func (s *csvSink) head() error {
	if s.headed {
		return nil
	}
	s.headed = true
	return s.w.Write(columns)
}

func (s *csvSink) Add(x *Exported) error {
	r, err := rowOf(x)
	if err != nil {
		return err
	}
	if err := s.head(); err != nil {
		return err
	}
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	return s.w.Write([]string{r.Account, n(r.Version), r.At.Format(time.RFC3339Nano), r.Recorded.Format(time.RFC3339Nano), r.Kind, r.Key, r.Machine,
		r.Trigger, r.Outcome, r.From, r.To, r.Source, n(r.Epoch), n(r.Seq), r.By, r.ReasonCode, r.ReasonText, r.Verdict, r.ID, r.Data, n(int64(r.Partition)), n(r.Sequence)})
}

func (s *csvSink) Close() error {
	if err := s.head(); err != nil {
		return err
	}
	s.w.Flush()
	return s.w.Error()
}

// rowsInGroup is how many rows a row group of a Parquet file has; they are held
// in memory until it is full.
const rowsInGroup = 100_000

type parquetSink struct {
	w    *parquet.GenericWriter[Row]
	rows []Row
	n    int
}

func newParquet(w io.Writer) *parquetSink {
	return &parquetSink{w: parquet.NewGenericWriter[Row](w, parquet.Compression(&parquet.Zstd))}
}

func (s *parquetSink) Add(x *Exported) error {
	r, err := rowOf(x)
	if err != nil {
		return err
	}
	s.rows = append(s.rows, r)
	if len(s.rows) < 1024 {
		return nil
	}
	return s.write()
}

func (s *parquetSink) write() error {
	n, err := s.w.Write(s.rows)
	s.rows = s.rows[:0]
	if s.n += n; err != nil || s.n < rowsInGroup {
		return err
	}
	s.n = 0
	return s.w.Flush()
}

func (s *parquetSink) Close() error {
	if err := s.write(); err != nil {
		return err
	}
	return s.w.Close()
}

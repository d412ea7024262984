package blockscan

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// appendRecord writes a record as the server does; the damage tests of natslog
// scan blocks that the server itself has written.
func appendRecord(t testing.TB, b []byte, c *checker, seq uint64, subject, header, body string) []byte {
	t.Helper()
	start := len(b)
	size := headSize + len(subject) + 4 + len(header) + len(body) + sumSize
	b = binary.LittleEndian.AppendUint32(b, uint32(size|hasHeader))
	b = binary.LittleEndian.AppendUint64(b, seq)
	b = binary.LittleEndian.AppendUint64(b, 1_700_000_000_000_000_000+seq)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(subject)))
	b = append(b, subject...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(header)))
	b = append(b, header...)
	b = append(b, body...)
	c.hash.Reset()
	for _, part := range [][]byte{b[start+4 : start+20], []byte(subject), []byte(header), []byte(body)} {
		if _, err := c.hash.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	return c.hash.Sum(b)
}

const fuzzRecords = 12

// smallBlock is block 1 of partition 0 of 1, with one account per record.
func smallBlock(t testing.TB) []byte {
	t.Helper()
	c, err := newChecker("MUSTER_EV_00", 1)
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for seq := uint64(1); seq <= fuzzRecords; seq++ {
		b = appendRecord(t, b, c, seq, fmt.Sprintf("muster.ev.00.a-%d", seq),
			"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 0\r\n\r\n", fmt.Sprintf("body of %d", seq))
	}
	return b
}

func scanBlock(t testing.TB, b []byte) *scanner {
	t.Helper()
	c, err := newChecker("MUSTER_EV_00", 1)
	if err != nil {
		t.Fatal(err)
	}
	s := &scanner{partition: 0, partitions: 1, want: 1}
	s.records(c, "1.blk", b, true)
	return s
}

func TestWholeBlock(t *testing.T) {
	s := scanBlock(t, smallBlock(t))
	if s.report.Records != fuzzRecords || len(s.report.Damage) != 0 || s.want != fuzzRecords+1 {
		t.Errorf("%+v, next %d", s.report, s.want)
	}
}

// Each single flipped bit of a block is found, with the right account; so is
// every record behind it.
func TestEveryFlippedBitIsNamed(t *testing.T) {
	whole := smallBlock(t)
	for bit := range len(whole) * 8 {
		b := append([]byte{}, whole...)
		b[bit/8] ^= 1 << (bit % 8)
		s := scanBlock(t, b)
		flipped := 0
		for _, d := range s.report.Damage {
			if d.Reason == Flipped {
				flipped++
			} else if d.Reason != Behind {
				t.Fatalf("bit %d: %v", bit, d)
			}
			if d.Account != fmt.Sprintf("a-%d", d.Seq) {
				t.Fatalf("bit %d: %v names the wrong account", bit, d)
			}
		}
		if flipped != 1 || s.report.Records != fuzzRecords-1 {
			t.Fatalf("bit %d: %d flips, %d whole records", bit, flipped, s.report.Records)
		}
	}
}

// Whatever is written over a block, or wherever it is cut: each record is
// whole or named, or lies behind the end that the scan reports.
func FuzzDamagedBlock(f *testing.F) {
	f.Add(uint16(100), []byte{0}, uint16(65535))
	f.Add(uint16(0), []byte("\xff\xff\xff\xff"), uint16(700))
	f.Add(uint16(300), make([]byte, 200), uint16(65535))
	f.Fuzz(func(t *testing.T, at uint16, over []byte, end uint16) {
		b := smallBlock(t)
		whole := append([]byte{}, b...)
		copy(b[min(int(at), len(b)):], over)
		b = b[:min(int(end), len(b))]
		s := scanBlock(t, b)
		named := map[uint64]bool{}
		behind := uint64(0)
		for _, d := range s.report.Damage {
			for seq := d.Seq; seq <= d.To && seq <= fuzzRecords; seq++ {
				named[seq] = true
			}
			if d.Reason == Behind {
				behind++
			}
		}
		reached := min(s.want-1, fuzzRecords)
		if unnamed := reached - min(uint64(len(named)), reached); s.report.Records-behind < unnamed {
			t.Errorf("%d records reached, %d named, %d whole and before any damage", reached, len(named), s.report.Records-behind)
		}
		if string(b) == string(whole) && len(s.report.Damage) > 0 {
			t.Errorf("an undamaged block: %v", s.report.Damage)
		}
	})
}

package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/musterhq/muster/eventlog"
)

const (
	frameMagic  = "MSFR"
	frameHeader = 56
	maxRaw      = 1 << 28 // a frame that claims more is not believed
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Frame is where a frame stands in its segment and what it covers.
type Frame struct {
	Offset      int64 // in the file
	Length      int64 // header and payload
	Records     int
	First, Last uint64 // sequences
	Low, High   int64  // unix ns
	names       int
	raw         int
}

// Entry is one record of a block. Data is part of the block's memory.
type Entry struct {
	Seq     uint64
	Time    int64  // unix ns
	Account uint32 // the account's number in its segment
	Data    []byte
}

// Block is what a frame holds. Its memory is used again by the next Decode into
// it; what is to stay must be copied, but for Names.
type Block struct {
	Names   []string // ids of the accounts that occur for the first time, in the order of their numbers
	Entries []Entry

	raw []byte
}

// parseFrame reads a frame's header. size is what is left of the file from
// the header's start.
func parseFrame(h []byte, offset, size int64) (Frame, error) {
	if len(h) < frameHeader || string(h[:4]) != frameMagic {
		return Frame{}, errors.New("no frame begins here")
	}
	le := binary.LittleEndian
	f := Frame{
		Offset: offset, Length: frameHeader + int64(le.Uint32(h[4:])),
		raw: int(le.Uint32(h[8:])), Records: int(le.Uint32(h[12:])), names: int(le.Uint32(h[16:])),
		First: le.Uint64(h[20:]), Last: le.Uint64(h[28:]),
		Low: int64(le.Uint64(h[36:])), High: int64(le.Uint64(h[44:])),
	}
	switch {
	case f.Length > size:
		return Frame{}, errors.New("the frame is cut off")
	case f.raw > maxRaw, f.Records < 1, f.names > f.Records, f.First < 1, f.Low > f.High:
		return Frame{}, errors.New("the frame's header is not possible")
	case f.Last < f.First || f.Last > math.MaxInt64 || f.Last-f.First < uint64(f.Records)-1:
		return Frame{}, errors.New("the frame's sequences do not fit its records")
	}
	return f, nil
}

// decoder unpacks frames; it must not be used by two goroutines at a time.
type decoder struct{ z *zstd.Decoder }

// decoders keeps what was used: making one costs more than a small frame.
var decoders = sync.Pool{New: func() any {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxRaw), zstd.IgnoreChecksum(true))
	if err != nil {
		panic(err) // of the options alone, which are these
	}
	return &decoder{z: z}
}}

func newDecoder() *decoder { return decoders.Get().(*decoder) }

func (d *decoder) free() { decoders.Put(d) }

// decode unpacks a whole frame (header and payload) into b. known is how many
// accounts of the segment were named before.
func (d *decoder) decode(frame []byte, f Frame, known int, b *Block) error {
	sum := crc32.Update(crc32.Checksum(frame[:frameHeader-4], castagnoli), castagnoli, frame[frameHeader:])
	if sum != binary.LittleEndian.Uint32(frame[frameHeader-4:]) {
		return errors.New("the frame's CRC is wrong")
	}
	if cap(b.raw) < f.raw {
		b.raw = make([]byte, 0, f.raw)
	}
	raw, err := d.z.DecodeAll(frame[frameHeader:], b.raw[:0])
	if err != nil {
		return fmt.Errorf("the frame cannot be unpacked: %w", err)
	}
	b.raw = raw
	if len(raw) != f.raw || len(raw) < 8 {
		return errors.New("the frame's length is not the one it names")
	}
	return b.parse(raw, f, known)
}

// parse takes an unpacked payload apart.
func (b *Block) parse(raw []byte, f Frame, known int) error {
	names := int64(binary.LittleEndian.Uint32(raw))
	index := int64(binary.LittleEndian.Uint32(raw[4:]))
	body := raw[8:]
	if names+index > int64(len(body)) {
		return errors.New("the frame's parts are longer than it")
	}
	if err := b.parseNames(body[:names], f.names); err != nil {
		return err
	}
	return b.parseIndex(body[names:names+index], body[names+index:], f, known+f.names)
}

func (b *Block) parseNames(p []byte, n int) error {
	b.Names = b.Names[:0]
	for range n {
		size, k := binary.Uvarint(p)
		if k <= 0 || size > uint64(len(p)-k) {
			return errors.New("the frame's names are cut off")
		}
		b.Names = append(b.Names, string(p[k:k+int(size)]))
		p = p[k+int(size):]
	}
	if len(p) > 0 {
		return errors.New("the frame has more names than it says")
	}
	return nil
}

func (b *Block) parseIndex(p, data []byte, f Frame, accounts int) error {
	if cap(b.Entries) < f.Records {
		b.Entries = make([]Entry, 0, f.Records)
	}
	b.Entries = b.Entries[:0]
	seq, at := f.First-1, f.Low
	for range f.Records {
		var gap, account, size uint64
		var delta int64
		var k [4]int
		gap, k[0] = uvarint(p)
		delta, k[1] = varint(p[k[0]:])
		account, k[2] = uvarint(p[k[0]+k[1]:])
		size, k[3] = uvarint(p[k[0]+k[1]+k[2]:])
		if k[0] == 0 || k[1] == 0 || k[2] == 0 || k[3] == 0 || size > uint64(len(data)) || account >= uint64(accounts) || gap >= f.Last-seq {
			return errors.New("the frame's index is broken")
		}
		p = p[k[0]+k[1]+k[2]+k[3]:]
		seq, at = seq+gap+1, at+delta
		b.Entries = append(b.Entries, Entry{Seq: seq, Time: at, Account: uint32(account), Data: data[:size:size]})
		data = data[size:]
	}
	if len(p) > 0 || len(data) > 0 || b.Entries[0].Seq != f.First || seq != f.Last {
		return errors.New("the frame's index does not fit its header")
	}
	return nil
}

// uvarint and varint are those of encoding/binary, with 0 read for anything
// that is wrong, so that the offsets behind it stay within the slice.
func uvarint(p []byte) (v uint64, n int) {
	if len(p) > 0 && p[0] < 0x80 {
		return uint64(p[0]), 1
	}
	v, n = binary.Uvarint(p)
	return v, max(n, 0)
}

func varint(p []byte) (v int64, n int) {
	v, n = binary.Varint(p)
	return v, max(n, 0)
}

// encoder gathers records and writes them as frames of one segment.
type encoder struct {
	z        *zstd.Encoder
	numbers  map[string]uint32 // of the segment's accounts
	accounts []string

	names, index, data []byte
	fresh, records     int
	first, last        uint64
	low, high          int64
	times              []int64 // of the records: the lowest is known only at the end
	lengths            []recordIndex
}

type recordIndex struct {
	gap     uint64
	account uint32
	length  int
}

func newEncoder() *encoder {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // of the options alone, which are these
	}
	e := &encoder{z: z}
	e.begin()
	return e
}

// begin starts a segment.
func (e *encoder) begin() {
	e.numbers, e.accounts = map[string]uint32{}, nil
	e.empty()
}

func (e *encoder) empty() {
	e.names, e.index, e.data = e.names[:0], e.index[:0], e.data[:0]
	e.times, e.lengths = e.times[:0], e.lengths[:0]
	e.fresh, e.records = 0, 0
}

// name gives an account of the segment its number.
func (e *encoder) name(account string) (n uint32, fresh bool) {
	n, ok := e.numbers[account]
	if !ok {
		n = uint32(len(e.accounts))
		e.numbers[account] = n
		e.accounts = append(e.accounts, account)
	}
	return n, !ok
}

// add takes a record; its sequence must be above the last one's.
func (e *encoder) add(r *eventlog.Record) {
	n, fresh := e.name(r.Account)
	if fresh {
		e.names = binary.AppendUvarint(e.names, uint64(len(r.Account)))
		e.names = append(e.names, r.Account...)
		e.fresh++
	}
	gap := uint64(0)
	if e.records == 0 {
		e.first, e.low, e.high = r.Seq, r.Time, r.Time
	} else {
		gap = r.Seq - e.last - 1
	}
	e.low, e.high, e.last = min(e.low, r.Time), max(e.high, r.Time), r.Seq
	e.times = append(e.times, r.Time)
	e.lengths = append(e.lengths, recordIndex{gap, n, len(r.Data)})
	e.data = append(e.data, r.Data...)
	e.records++
}

// flush appends the frame of what was added to dst.
func (e *encoder) flush(dst []byte) []byte {
	at := e.low
	for i, l := range e.lengths {
		e.index = binary.AppendUvarint(e.index, l.gap)
		e.index = binary.AppendVarint(e.index, e.times[i]-at)
		e.index = binary.AppendUvarint(e.index, uint64(l.account))
		e.index = binary.AppendUvarint(e.index, uint64(l.length))
		at = e.times[i]
	}
	le := binary.LittleEndian
	raw := make([]byte, 0, 8+len(e.names)+len(e.index)+len(e.data))
	raw = le.AppendUint32(raw, uint32(len(e.names)))
	raw = le.AppendUint32(raw, uint32(len(e.index)))
	raw = append(append(append(raw, e.names...), e.index...), e.data...)

	start := len(dst)
	dst = append(dst, make([]byte, frameHeader)...)
	dst = e.z.EncodeAll(raw, dst)
	h := dst[start : start+frameHeader]
	copy(h, frameMagic)
	le.PutUint32(h[4:], uint32(len(dst)-start-frameHeader))
	le.PutUint32(h[8:], uint32(len(raw)))
	le.PutUint32(h[12:], uint32(e.records))
	le.PutUint32(h[16:], uint32(e.fresh))
	le.PutUint64(h[20:], e.first)
	le.PutUint64(h[28:], e.last)
	le.PutUint64(h[36:], uint64(e.low))
	le.PutUint64(h[44:], uint64(e.high))
	sum := crc32.Update(crc32.Checksum(h[:frameHeader-4], castagnoli), castagnoli, dst[start+frameHeader:])
	le.PutUint32(h[frameHeader-4:], sum)
	e.empty()
	return dst
}

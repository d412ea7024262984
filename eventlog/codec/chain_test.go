package codec_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/codec"
)

func TestHashIsTheFrontOfSHA256(t *testing.T) {
	h := codec.Hash([]byte("abc"))
	if got, want := hex.EncodeToString(h[:]), "ba7816bf8f01cfea414140de5dae2223"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLinkCheck(t *testing.T) {
	five := codec.Link{Version: 5, Hash: hash(1)}
	tests := []struct {
		name     string
		link     codec.Link
		version  uint64
		prev     [16]byte
		mismatch bool
		says     string // "" = it fits
	}{
		{"the first", codec.Link{}, 1, [16]byte{}, false, ""},
		{"the next", five, 6, hash(1), false, ""},
		{"two are missing", five, 8, hash(7), true, "versions 6 to 7 are missing before sequence 99"},
		{"the front is missing", codec.Link{}, 3, hash(7), true, "versions 1 to 2 are missing before sequence 99"},
		{"the same again", five, 5, hash(0), true, "version 5 at sequence 99 comes after version 5"},
		{"another record before", five, 6, hash(2), true, "the record before version 6 (sequence 99) is not the one that was written"},
		{"a gap with the right hash", five, 7, hash(1), false, "versions 6 to 6 are missing"},
		{"a first one with a hash", codec.Link{}, 1, hash(1), true, "is not the one that was written"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.link.Check(99, &domain.Event{Account: "acct-1", Version: tt.version, Prev: tt.prev})
			if tt.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var ce *codec.ChainError
			if !errors.As(err, &ce) {
				t.Fatalf("got %v, want a ChainError", err)
			}
			want := codec.ChainError{Account: "acct-1", Seq: 99, WantVersion: tt.link.Version + 1, GotVersion: tt.version, HashMismatch: tt.mismatch}
			if *ce != want {
				t.Errorf("got %+v, want %+v", *ce, want)
			}
			if !strings.Contains(err.Error(), `account "acct-1": `) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%q does not say %q", err, tt.says)
			}
		})
	}
}

// A chain as the writer makes it holds, and breaks wherever one bit of one
// record flips.
func TestChainOfRecords(t *testing.T) {
	var link codec.Link
	var records [][]byte
	for v := uint64(1); v <= 5; v++ {
		e := markSample()
		e.Version, e.Prev = v, link.Hash
		record, err := codec.Encode(&e)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, record)
		link = codec.LinkOf(&e, record)
	}
	walk := func() (broken uint64) {
		var link codec.Link
		for i, record := range records {
			e, err := codec.Decode(record)
			if err != nil {
				return uint64(i + 1)
			}
			if err := link.Check(uint64(i+1), &e); err != nil {
				return e.Version
			}
			link = codec.LinkOf(&e, record)
		}
		return 0
	}
	if at := walk(); at != 0 {
		t.Fatalf("an undamaged chain breaks at version %d", at)
	}
	for i := range records[2] {
		records[2][i] ^= 0x10
		if at := walk(); at == 0 {
			t.Errorf("nobody notices a flipped bit in byte %d of a record", i)
		}
		records[2][i] ^= 0x10
	}
}

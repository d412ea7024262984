package offline

import (
	"context"
	"fmt"
	"iter"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/seal"
)

// Opened is a history whose sealed records come out as they were before they were
// sealed, as far as keys has the key of their account. A record that its key does not
// open ends the reading with a seal.ErrOpen. Without keys it is h itself.
func Opened(h History, keys *seal.Keys) History {
	if keys == nil {
		return h
	}
	return unsealing{h, keys}
}

type unsealing struct {
	History
	keys *seal.Keys
}

// Read yields the partition's records with Seq > after, opened.
func (o unsealing) Read(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return unsealed(o.keys, o.History.Read(ctx, partition, after))
}

// Follow is Read that goes on with what comes.
func (o unsealing) Follow(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return unsealed(o.keys, o.History.Follow(ctx, partition, after))
}

// unsealed opens records; without keys they stay as they are.
func unsealed(keys *seal.Keys, records iter.Seq2[eventlog.Record, error]) iter.Seq2[eventlog.Record, error] {
	if keys == nil {
		return records
	}
	return func(yield func(eventlog.Record, error) bool) {
		for r, err := range records {
			if err == nil {
				_, err = keys.Unseal(&r)
			}
			if err != nil {
				err = fmt.Errorf("sequence %d of partition %d: %w", r.Seq, r.Partition, err)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// storedAs is the id under which an account's records are stored.
func storedAs(keys *seal.Keys, id domain.AccountID) string {
	if keys != nil {
		if alias, ok := keys.Alias(string(id)); ok {
			return alias
		}
	}
	return string(id)
}

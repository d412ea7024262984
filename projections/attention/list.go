package attention

import (
	"strings"

	"github.com/musterhq/muster/projections/internal/merge"
)

// atOnce is how many accounts are looked at before events are let in.
const atOnce = 1024

// Page is one page of items, in the order of account and then kind, by bytes.
type Page struct {
	Items []Item
	Next  string // Accounts' after for the next page; "" = this is the last
}

// Accounts returns the items that match f, up to limit of them (1 to MaxLimit;
// outside of that, the nearer bound). after is the Next of the page before, ""
// for the first one. A page may come short when many items had to be looked at.
func (v *View) Accounts(f Filter, after string, limit int) Page {
	limit = max(1, min(limit, MaxLimit))
	items, next := merge.Page(v.Partitions(), ScanLimit/atOnce, after, limit, itemKey, func(part int, after string, most int) merge.Batch[Item] {
		return v.Part(part).scan(&f, after, most)
	})
	return Page{items, next}
}

// itemKey orders items by account and kind: an id holds no zero byte.
func itemKey(i *Item) string { return string(i.Account) + "\x00" + i.Kind }

// behindAll is a kind behind all kinds: no text in UTF-8 has it.
const behindAll = "\xff"

// scan looks at some accounts that have items.
func (s *shard) scan(f *Filter, after string, most int) merge.Batch[Item] {
	s.settle()
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.ids.RLock()
	defer s.ids.RUnlock()
	b := merge.Batch[Item]{Through: after, Done: true}
	m := s.matcher(f)
	id, kind, _ := strings.Cut(after, "\x00")
	first, ok := s.seek(id)
	if !ok || m.none {
		return b
	}
	looked := 0
	s.order.Ascend(first, func(number uint32) bool {
		if looked == atOnce || len(b.Found) >= most {
			b.Done = false
			return false
		}
		looked++
		items := s.more[number].items
		account := string(s.ids.ID(number))
		for i := range items {
			if account == id && s.kinds.Name(items[i].kind) <= kind {
				continue
			}
			if m.item(items[i].kind, items[i].source) && m.account(number) {
				b.Found = append(b.Found, s.shownItem(number, &items[i]))
			}
		}
		b.Through = account + "\x00" + behindAll
		return true
	})
	return b
}

// seek returns the first account with an item from an id on.
func (s *shard) seek(id string) (number uint32, ok bool) {
	lo, hi := 0, s.order.Len()
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		n, _ := s.order.GetAt(mid)
		if s.ids.CompareID(n, id) >= 0 {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return s.order.GetAt(lo)
}

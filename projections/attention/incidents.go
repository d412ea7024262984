package attention

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/musterhq/muster/domain"
)

// Incident is what accounts of one source need for one reason since one time.
type Incident struct {
	Kind     string
	Source   string
	Reason   string
	Since    int64 // unix ns: when the first item that still stands began
	Last     int64 // when the last one did
	Accounts int
	Sample   []domain.AccountID // some of them, the first by id

	from, to int32  // minutes
	key      string // what it is ordered by
}

// sampled is how many accounts of an incident are named.
const sampled = 3

// IncidentPage is one page of incidents, the one that began last first.
type IncidentPage struct {
	Incidents []Incident
	Next      string // Incidents' after for the next page; "" = this is the last
	Items     int    // of all incidents that match
	All       int    // incidents that match, on all pages
}

// Incidents returns the incidents that match f, up to limit of them (1 to
// MaxLimit; outside of that, the nearer bound). after is the Next of the page
// before, "" for the first one. With labels, an incident is that of the accounts
// which have them.
func (v *View) Incidents(f Filter, after string, limit int) IncidentPage {
	limit = max(1, min(limit, MaxLimit))
	all := v.group(&f)
	page := IncidentPage{All: len(all)}
	for i := range all {
		all[i].setKey()
		page.Items += all[i].Accounts
	}
	slices.SortFunc(all, func(a, b Incident) int { return strings.Compare(a.key, b.key) })
	from, _ := slices.BinarySearchFunc(all, after, func(i Incident, key string) int {
		if i.key <= key {
			return -1
		}
		return 1
	})
	page.Incidents = all[from:min(from+limit, len(all))]
	if from+limit < len(all) {
		page.Next = page.Incidents[limit-1].key
	}
	for i := range page.Incidents {
		v.look(&f, &page.Incidents[i])
	}
	return page
}

// setKey makes what orders incidents: the one that began last first, then the
// more pressing kinds, then by source and reason.
func (i *Incident) setKey() {
	i.key = fmt.Sprintf("%08x\x00%02x%s\x00%s\x00%s", uint32(1<<31-1-int64(i.from)), domain.AttentionRank(i.Kind), i.Kind, i.Source, i.Reason)
}

// same is what the items of an incident have in common, over all partitions.
type same struct{ kind, source, reason string }

// group adds the partitions' buckets up and joins those of minutes that follow
// one another.
func (v *View) group(f *Filter) (all []Incident) {
	counts := map[same]map[int32]int{}
	for i := range v.Partitions() {
		v.Part(i).addBuckets(f, counts)
	}
	for what, byMinute := range counts {
		var open *Incident
		for _, minute := range slices.Sorted(maps.Keys(byMinute)) {
			if open == nil || minute > open.to+1 {
				all = append(all, Incident{Kind: what.kind, Source: what.source, Reason: what.reason, from: minute})
				open = &all[len(all)-1]
			}
			open.to = minute
			open.Accounts += byMinute[minute]
		}
	}
	return all
}

// addBuckets adds the shard's items that match, by what they have in common and
// minute.
func (s *shard) addBuckets(f *Filter, counts map[same]map[int32]int) {
	s.settle()
	s.mu.RLock()
	defer s.mu.RUnlock()
	m := s.matcher(f)
	for key, list := range s.buckets {
		if !m.item(key.kind, key.source) {
			continue
		}
		n := len(list)
		if len(f.Labels) > 0 {
			n = 0
			for _, number := range list {
				if m.account(number) {
					n++
				}
			}
		}
		if n == 0 {
			continue
		}
		what := same{s.kinds.Name(key.kind), s.sources.Name(key.source), s.reasons.Name(key.reason)}
		if counts[what] == nil {
			counts[what] = map[int32]int{}
		}
		counts[what][key.minute] += n
	}
}

// look finds when an incident's items began, and some of its accounts. Items that
// have gone meanwhile are left out.
func (v *View) look(f *Filter, i *Incident) {
	i.Since, i.Last = int64(i.from)*60e9, int64(i.to)*60e9 // if all have gone
	var seen span
	for _, s := range v.Parts() {
		if len(f.Labels) == 0 {
			s.prepare(i)
		}
		s.span(f, i, &seen)
	}
	if seen.any {
		i.Since, i.Last = seen.since, seen.last
	}
}

// span is from when to when items began.
type span struct {
	any         bool
	since, last int64
}

func (n *span) add(since int64) {
	if !n.any {
		*n = span{true, since, since}
	}
	n.since, n.last = min(n.since, since), max(n.last, since)
}

// span looks at the shard's items of an incident that match; of a large bucket at
// its edges, if all of it matches.
func (s *shard) span(f *Filter, i *Incident, seen *span) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.ids.RLock()
	defer s.ids.RUnlock()
	m := s.matcher(f)
	s.eachBucket(i, func(key bucketKey, list []uint32) {
		if e := s.edges[key]; e != nil && e.good() && len(f.Labels) == 0 {
			seen.add(e.oldest.list[0])
			seen.add(e.newest.list[0])
			for _, number := range e.accounts.list[:min(sampled, len(e.accounts.list))] {
				s.sample(i, number)
			}
			return
		}
		for _, number := range list {
			if m.account(number) {
				seen.add(s.itemOf(number, key.kind).since)
				s.sample(i, number)
			}
		}
	})
}

// sample keeps the first accounts by id.
func (s *shard) sample(i *Incident, number uint32) {
	if n := len(i.Sample); n == sampled && s.ids.CompareID(number, string(i.Sample[n-1])) > 0 {
		return
	}
	id := s.ids.ID(number)
	at, _ := slices.BinarySearch(i.Sample, id)
	i.Sample = slices.Insert(i.Sample, at, id)
	i.Sample = i.Sample[:min(sampled, len(i.Sample))]
}

package alert

import (
	"cmp"
	"container/heap"
)

// timer is a time at which something may be due; whether it is, is looked at then.
type timer struct {
	at       int64 // unix ns
	op       timerOp
	key, sub string
}

type timerOp uint8

const (
	routeItem timerOp = iota
	tellGroup
	settleGroup
	remindGroup
	freeHeld
	tryDelivery
)

// timers is a heap, the earliest first.
type timers []timer

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(t[i].at, t[j].at), cmp.Compare(t[i].key, t[j].key)) < 0
}
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

// Push is for package heap.
func (t *timers) Push(x any) { *t = append(*t, x.(timer)) }

// Pop is for package heap.
func (t *timers) Pop() any {
	old := *t
	last := old[len(old)-1]
	*t = old[:len(old)-1]
	return last
}

func (t *timers) add(at int64, what timer) {
	what.at = at
	heap.Push(t, what)
}

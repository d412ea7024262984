package natslog

import (
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/eventlog"
)

// ack takes one answer of the server; the client calls it for one message at a time.
func (w *writer) ack(m *nats.Msg) {
	number, i, ok := w.parseReply(m.Subject)
	if !ok {
		return
	}
	a := answer{body: m.Data}
	if len(m.Data) == 0 && m.Header != nil {
		a.status = m.Header.Get("Status")
	}
	w.settleOne(number, i, a)
}

// parseReply reads the group's and the entry's number off a reply subject.
func (w *writer) parseReply(subject string) (number uint64, entry int32, ok bool) {
	rest, ok := strings.CutPrefix(subject, w.replies)
	if !ok {
		return 0, 0, false
	}
	first, second, ok := strings.Cut(rest, ".")
	if !ok {
		return 0, 0, false
	}
	number, err := strconv.ParseUint(first, 36, 64)
	if err != nil {
		return 0, 0, false
	}
	i, err := strconv.ParseUint(second, 36, 31)
	return number, int32(i), err == nil
}

// settleOne records what became of an entry and sends the next one of its
// account, if there is one. It holds mu while it sends, so that no entry is
// looked at after Append has returned.
func (w *writer) settleOne(number uint64, i int32, a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if number != w.number || int(i) >= len(w.group) || w.answered[i] {
		return // of a group that has ended
	}
	for i >= 0 {
		seq, err := outcome(w.group[i].Account, a)
		w.set(i, eventlog.Result{Seq: seq, Err: err})
		next := w.next[i]
		if err != nil {
			for ; next >= 0; next = w.next[next] {
				w.set(next, eventlog.FollowsFailure(w.group[next].Account, err))
			}
		}
		if next < 0 {
			break
		}
		expect := w.group[next].Expect
		if expect == eventlog.ExpectPrevious {
			expect = seq
		}
		if err = w.publish(number, next, &w.group[next], expect); err == nil {
			return
		}
		i, a = next, answer{err: err}
	}
	if w.open == 0 {
		close(w.done)
	}
}

// set gives an entry its result; the caller holds mu.
func (w *writer) set(i int32, r eventlog.Result) {
	w.results[i], w.answered[i] = r, true
	w.open--
}

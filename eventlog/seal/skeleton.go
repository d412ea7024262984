package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"strings"
	"time"

	"github.com/musterhq/muster/domain"
)

// token stands for a text in what is not encrypted: the same text of the same
// account has the same token, and without the account's key nobody can tell of
// which text it is.
func (k *key) token(text string) string {
	if text == "" {
		return ""
	}
	m := hmac.New(sha256.New, k.secret[32:])
	m.Write([]byte{'t'})
	m.Write([]byte(text))
	var sum [sha256.Size]byte
	return aliasPrefix + lower.EncodeToString(m.Sum(sum[:0])[:10])
}

// maxWord is the longest text that is taken for a word.
const maxWord = 48

// word is the text itself when it is a plain word (a code, the name of a
// connector), and else its token. A word is short, of letters, digits and -_.:, has
// no run of five digits (a number of a person, a time), and does not hold the
// account's id.
func (k *key) word(text string) string {
	if len(text) > maxWord || strings.Contains(text, k.id) {
		return k.token(text)
	}
	digits := 0
	for i := range len(text) {
		c := text[i]
		switch {
		case c >= '0' && c <= '9':
			if digits++; digits >= 5 {
				return k.token(text)
			}
			continue
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '_', c == '.', c == ':':
		default:
			return k.token(text)
		}
		digits = 0
	}
	return text
}

// sentence is the text itself when Muster wrote it of words alone, else its token.
func (k *key) sentence(text string) string {
	for _, w := range strings.Fields(text) {
		if k.word(strings.Trim(w, ",;()")) != strings.Trim(w, ",;()") {
			return k.token(text)
		}
	}
	return text
}

// scope keeps the scopes that Muster gives; others name recipients.
func (k *key) scope(text string) string {
	if text == "sid" || text == "tgt" {
		return text
	}
	return k.token(text)
}

// skeleton is what is not encrypted of an event: all that its fold needs, with
// tokens in the place of what is personal.
func (k *key) skeleton(e *domain.Event) domain.Event {
	s := *e
	s.Account = domain.AccountID(k.alias)
	s.ID, s.Key = k.token(e.ID), k.token(e.Key)
	s.Source = k.word(e.Source)
	s.Reason = domain.Reason{Code: k.word(e.Reason.Code)}
	s.Verdict = k.sentence(e.Verdict)
	s.Labels = k.labels(e.Labels)
	s.Data = k.data(e.Data)
	s.Set, s.Ended = nil, nil
	for _, c := range e.Set {
		c.Scope, c.Reason = k.scope(c.Scope), k.word(c.Reason)
		s.Set = append(s.Set, c)
	}
	for _, c := range e.Ended {
		c.Scope = k.scope(c.Scope)
		s.Ended = append(s.Ended, c)
	}
	s.Correlation, s.Causation, s.Traceparent = "", "", ""
	return s
}

// labels keeps the names of labels and hides what they say.
func (k *key) labels(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for name, v := range m {
		out[k.word(name)] = k.token(v)
	}
	return out
}

// kept says what becomes of the data that folding or judging an event looks at;
// all other data is encrypted alone.
var kept = map[string]func(k *key, text string) string{
	"mode": (*key).word, "state": (*key).word, "code": (*key).word, "source": (*key).word, "side": (*key).word, "condition": (*key).word,
	"action": (*key).token, "handler": (*key).token, "message": (*key).token, "scope": (*key).scope,
	"until": instant, "due": instant, "sid_until": instant, "tgt_until": instant,
}

// numbers are the keys of data whose numbers and truths are kept.
var numbers = map[string]bool{
	"next_seq": true, "full": true, "reply_within": true, "worker": true, "code": true,
	"until": true, "due": true, "sid_until": true, "tgt_until": true,
}

// instant keeps a time and hides what is none.
func instant(k *key, text string) string {
	if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
		return k.token(text)
	}
	return text
}

func (k *key) data(d domain.Data) domain.Data {
	var out domain.Data
	keep := func(name string, v any) {
		if out == nil {
			out = domain.Data{}
		}
		out[name] = v
	}
	for name, v := range d {
		switch v := v.(type) {
		case string:
			if f := kept[name]; f != nil {
				keep(name, f(k, v))
			}
		case int64, float64, bool:
			if numbers[name] {
				keep(name, v)
			}
		case map[string]any:
			if name == "labels" {
				keep(name, k.anyLabels(v))
			}
		}
	}
	return out
}

func (k *key) anyLabels(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for name, v := range m {
		if text, ok := v.(string); ok {
			out[k.word(name)] = k.token(text)
		}
	}
	return out
}

// Open says whether a text stands open in the sealed records of an account: a plain
// word, or a time.
func (k *Keys) Open(account, text string) bool {
	e := k.of(account)
	return e != nil && (e.word(text) == text || instant(e, text) == text)
}

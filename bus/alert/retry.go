package alert

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

// waits are the pauses before the second try and the later ones.
var waits = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
	30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour,
}

// maxRetryAfter bounds what a receiver can ask for.
const maxRetryAfter = 24 * time.Hour

// wait is the pause after the n-th failed try of a delivery (1, 2 …), with a
// jitter of a fifth that follows from the id; ok is false when there are no more.
func wait(id string, n int, retryAfter time.Duration) (d time.Duration, ok bool) {
	if n < 1 || n > len(waits) {
		return 0, false
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s#%d", id, n)
	d = waits[n-1] / 1000 * time.Duration(800+h.Sum64()%401)
	return max(d, min(retryAfter, maxRetryAfter)), true
}

// nameOf makes an id of what something is about: the same parts, the same id.
func nameOf(prefix string, parts ...any) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%v\x00", p)
	}
	return prefix + strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)[:15]))
}

package presence

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
)

// The rules of the roster, each as a script. A line is a time in seconds, what
// happens then, and behind => what follows: an action is kind, worker and the
// second in which it was due. The beat is 10 s, RecoverAfter 30 s; "look" is
// what the clock does, and a script has to say when it looks.
var rosterScripts = map[string]string{
	"a first hello of a name that was not known is that of another run": `
		0 hello w a          => reboot w 0, restore w 0`,
	"a hello that says again, of a name that was not known, recovers nothing": `
		0 again w a          => restore w 0`,
	"a first beat recovers nothing": `
		0 beat w a           => restore w 0`,
	"beats keep a worker alive": `
		0 hello w a          => reboot w 0, restore w 0
		10 beat w a
		20 beat w a
		49 look
		49 beat w a
		78 look`,
	"three beats missed: lapsed, and recovered 30 s later, each once": `
		0 hello w a          => reboot w 0, restore w 0
		10 beat w a
		39 look
		40 look              => lose w 40
		41 look
		69 look
		70 look              => await w 70
		71 look
		500 look`,
	"a late look gives the times at which things were due": `
		0 hello w a          => reboot w 0, restore w 0
		33 slow              => lose w 30
		64 slow              => await w 60`,
	"a beat in the very instant of the lapse wins, for it is heard first": `
		0 hello w a          => reboot w 0, restore w 0
		30 beat w a
		30 look`,
	"a beat after a lapse restores, and what was to come does not come": `
		0 hello w a          => reboot w 0, restore w 0
		30 look              => lose w 30
		45 beat w a          => restore w 45 lapsed
		60 look
		75 look              => lose w 75`,
	"a beat after the recovery restores, too": `
		0 hello w a          => reboot w 0, restore w 0
		30 look              => lose w 30
		60 look              => await w 60
		90 beat w a          => restore w 90 lapsed`,
	"a hello of the same run changes nothing": `
		0 hello w a          => reboot w 0, restore w 0
		5 again w a
		6 hello w a`,
	"a hello of another run recovers at once": `
		0 hello w a          => reboot w 0, restore w 0
		5 hello w b          => reboot w 5, restore w 5`,
	"a hello of another run after the lapse recovers at once, and not again": `
		0 hello w a          => reboot w 0, restore w 0
		30 look              => lose w 30
		40 hello w b         => reboot w 40, restore w 40
		60 look`,
	"a beat of another run counts only when the known one is silent": `
		0 hello w b          => reboot w 0, restore w 0
		5 beat w a           => ignored
		10 beat w b
		40 look              => lose w 40
		41 beat w c          => reboot w 41, restore w 41`,
	"goodbye is a lapse at once": `
		0 hello w a          => reboot w 0, restore w 0
		7 goodbye w a        => lose w 7
		8 goodbye w a
		30 look
		37 look              => await w 37`,
	"the goodbye of a run that another one has followed says nothing": `
		0 hello w a          => reboot w 0, restore w 0
		5 hello w b          => reboot w 5, restore w 5
		6 goodbye w a`,
	"a goodbye of nobody says nothing": `
		0 goodbye w a`,
	"a worker may promise other beats than it was told": `
		0 hello w a          => reboot w 0, restore w 0
		1 beat w a 2
		6 look
		7 look               => lose w 7
		8 beat w a 3600      => restore w 8 lapsed
		60 look
		120 look
		180 look
		187 look
		188 look             => lose w 188`,
	"an expected worker lapses like any other; what was not recovered with its partition is, if it is up": `
		0 expect w a
		29 look
		30 look              => lose w 30
		60 look              => awaitUp w 60
		61 beat w a          => restore w 61 lapsed`,
	"an expected worker that beats is live again": `
		0 expect w a
		20 beat w a          => restore w 20
		30 look
		49 look
		50 look              => lose w 50`,
	"an expected worker that says hello in another run is recovered": `
		0 expect w a
		20 hello w b         => reboot w 20, restore w 20`,
	"an expected worker of which the run is not known": `
		0 expect w -
		20 beat w b          => restore w 20`,
	"a partition that was taken over is looked through 30 s later; those that are gone are gone for it, too": `
		0 take
		0 expect w a
		30 look              => startup - 30, lose w 30
		40 take              => lose w 40
		70 look              => awaitUp w 60, startup - 70`,
	"what this process slept through was nobody's silence": `
		0 hello w a          => reboot w 0, restore w 0
		0 take
		10 beat w a
		11 look
		111 look
		130 look             => startup - 129
		139 look             => lose w 139`,
	"while nothing can be heard, nobody lapses; afterwards each has all its beats before it": `
		0 hello w a          => reboot w 0, restore w 0
		0 take
		20 look
		25 deaf
		45 deaf
		55 look              => startup - 55
		74 look
		75 look              => lose w 75`,
	"several at once come in the order in which they were due, then by name": `
		0 hello c a          => reboot c 0, restore c 0
		1 hello b a          => reboot b 1, restore b 1
		1 hello a a          => reboot a 1, restore a 1
		31 look              => lose c 30, lose a 31, lose b 31`,
}

func TestRoster(t *testing.T) {
	for name, script := range rosterScripts {
		t.Run(name, func(t *testing.T) {
			begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			s := stage{begin: begin, r: newRoster(10*time.Second, 30*time.Second, begin)}
			for line := range strings.Lines(script) {
				said, want, _ := strings.Cut(strings.TrimSpace(line), "=>")
				if said == "" {
					continue
				}
				if got := s.play(t, strings.Fields(said)); got != strings.TrimSpace(want) {
					t.Fatalf("%q: got %q", strings.TrimSpace(line), got)
				}
			}
		})
	}
}

// stage plays a script on a roster.
type stage struct {
	begin time.Time
	r     *roster
}

func (s *stage) second(text string) time.Time {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return s.begin.Add(time.Duration(n * float64(time.Second)))
}

func (s *stage) play(t *testing.T, words []string) string {
	now := s.second(words[0])
	arg := func(i int) string {
		if i < len(words) && words[i] != "-" {
			return words[i]
		}
		return ""
	}
	var todo []action
	lapsed, note := false, ""
	switch words[1] {
	case "hello", "again":
		var err error
		if todo, lapsed, err = s.r.hello(arg(2), arg(3), words[1] == "again", now); err != nil {
			t.Fatal(err)
		}
	case "beat":
		every, _ := strconv.Atoi(arg(4))
		counts := false
		if todo, lapsed, counts = s.r.beats(arg(2), arg(3), time.Duration(every)*time.Second, now); !counts {
			note = "ignored"
		}
	case "goodbye":
		todo = s.r.goodbye(arg(2), arg(3), now)
	case "expect":
		s.r.expect(arg(2), arg(3), now, now)
	case "take":
		todo = s.r.take([]*domain.Account{}, now)
	case "look": // in time, unless more than a minute has passed
		pause := now.Sub(s.r.looked)
		if pause > time.Minute {
			pause = time.Second
		}
		todo = s.r.look(now, pause, false)
	case "slow":
		todo = s.r.look(now, now.Sub(s.r.looked)-4*time.Second, false)
	case "deaf":
		todo = s.r.look(now, now.Sub(s.r.looked), true)
	default:
		t.Fatalf("there is no %q", words[1])
	}
	out := []string{}
	for _, a := range todo {
		worker := a.worker
		if worker == "" {
			worker = "-"
		}
		out = append(out, fmt.Sprintf("%s %s %v", a.kind, worker, a.at.Sub(s.begin).Seconds()))
	}
	text := strings.Join(out, ", ") + note
	if lapsed {
		text += " lapsed"
	}
	return text
}

func TestRosterIsBounded(t *testing.T) {
	now := time.Unix(0, 0)
	r := newRoster(time.Second, time.Second, now)
	for i := range maxWorkers {
		now = now.Add(time.Millisecond)
		if _, _, err := r.hello(fmt.Sprint("w-", i), "a", false, now); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := r.hello("one more", "a", false, now); err == nil {
		t.Fatal("more workers live than can be known")
	}
	if _, _, counts := r.beats("one more", "a", 0, now); counts {
		t.Fatal("a beat of one more counts")
	}
	r.goodbye("w-7", "a", now)
	r.goodbye("w-3", "a", now.Add(time.Second))
	if _, _, err := r.hello("one more", "a", false, now); err != nil {
		t.Fatal(err)
	}
	if _, known := r.heardSince("w-7", now); known {
		t.Fatal("the one that has been silent longest is still known")
	}
	if _, known := r.heardSince("w-3", now); !known || len(r.workers) != maxWorkers {
		t.Fatalf("%d workers are known", len(r.workers))
	}
}

func TestRosterPrunes(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	r := newRoster(time.Second, time.Second, now)
	r.expect("used", "a", now.Add(-90*24*time.Hour), now)
	r.expect("old", "a", now.Add(-30*24*time.Hour), now)
	r.expect("young", "a", now.Add(-29*24*time.Hour), now)
	r.prune(map[string]bool{"used": true}, now)
	for name, want := range map[string]bool{"used": true, "old": false, "young": true} {
		if _, known := r.heardSince(name, now); known != want {
			t.Errorf("%s is known: %v, want %v", name, known, want)
		}
	}
}

// Package domaintest tells what the judge does in text scenarios: triggers in,
// log lines and accounts out.
//
// A file holds scenarios. Each begins with "=== " and a sentence, goes on with
// input, one step a line, and after "----" lists everything that came of it.
// Times are of one day, HH:MM:SS, with "N+" before them for N days later:
//
//	=== a start that leads nowhere is stuck after five minutes
//	10:00:00 a start by=user source=ops mode=supervise data.note=x
//	until 10:10:00
//	show a
//	----
//	[2026-01-05T10:00:00.000Z] a: IDLE -> CONNECTING via start
//	[2026-01-05T10:05:00.000Z] a: CONNECTING -x mark_stuck (noop)
//	    + stuck
//	a: CONNECTING since 10:00:00, version 2, run; stuck; can nothing; attention stuck
//
// It owns the form of the scenarios, and no rule: what comes out is what the
// judge says. A step that cannot be read is an error that names its line.
package domaintest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/domain/trace"
)

// day is the day of all scenarios.
var day = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// Scenario is one scenario of a file.
type Scenario struct {
	Name   string
	Input  string
	Output string // what is expected
	line   int
}

// Parse splits a file into its scenarios.
func Parse(text string) ([]Scenario, error) {
	var list []Scenario
	inOutput := false
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		switch name, isHead := strings.CutPrefix(line, "=== "); {
		case isHead:
			list = append(list, Scenario{Name: name, line: i + 1})
			inOutput = false
		case len(list) == 0:
			if line != "" && !strings.HasPrefix(line, "#") {
				return nil, fmt.Errorf("line %d: want === and a sentence before any step", i+1)
			}
		case line == "----":
			inOutput = true
		case inOutput:
			list[len(list)-1].Output += line + "\n"
		default:
			list[len(list)-1].Input += line + "\n"
		}
	}
	for i := range list {
		list[i].Output = strings.TrimRight(list[i].Output, "\n") + "\n"
	}
	return list, nil
}

// Format is the inverse of Parse.
func Format(list []Scenario) string {
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "=== %s\n%s----\n%s", s.Name, s.Input, s.Output)
	}
	return b.String()
}

// Run plays a scenario with the machines of reg and returns what came of it.
func Run(s Scenario, reg *machine.Registry) (string, error) {
	judge := domain.NewJudge(reg)
	p := player{judge: judge, runner: trace.NewRunner(judge)}
	for i, line := range strings.Split(s.Input, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := p.step(strings.Fields(line)); err != nil {
			return "", fmt.Errorf("line %d, %q: %w", s.line+i+1, line, err)
		}
	}
	return p.out.String(), nil
}

// player plays one scenario.
type player struct {
	judge  *domain.Judge
	runner *trace.Runner
	out    strings.Builder
	told   int // events told so far
}

func (p *player) step(words []string) error {
	switch words[0] {
	case "until":
		at, err := clock(words[1])
		if err != nil {
			return err
		}
		p.runner.Fire(at)
		p.tell()
		return nil
	case "show":
		for _, id := range words[1:] {
			p.show(domain.AccountID(id))
		}
		return nil
	}
	t, err := Trigger(words)
	if err != nil {
		return err
	}
	d := p.runner.Feed(1, &t)
	p.tell()
	switch d.Verdict.Outcome {
	case domain.Duplicate:
		fmt.Fprintf(&p.out, "    duplicate of version %d: %s, %s to %s\n", d.Verdict.Version, d.Verdict.Earlier, d.Verdict.From, d.Verdict.To)
	case domain.Conflict, domain.Invalid:
		fmt.Fprintf(&p.out, "    %s: %s\n", d.Verdict.Outcome, d.Verdict.Reason)
	}
	if d.Beat != 0 {
		fmt.Fprintf(&p.out, "    %s: heartbeat\n", d.Verdict.Outcome)
	}
	return nil
}

// tell writes the events that are new.
func (p *player) tell() {
	events := p.runner.Events()
	for _, e := range events[p.told:] {
		p.out.WriteString(domain.LogLine(e))
		if e.Source == domain.SourceMuster && e.Reason.Code != "" {
			fmt.Fprintf(&p.out, " [%s]", e.Reason.Code)
		}
		if e.Effects&domain.EffectLate != 0 {
			p.out.WriteString(" [late]")
		}
		p.out.WriteString("\n")
		for _, c := range e.Ended {
			fmt.Fprintf(&p.out, "    - %s\n", named(c.Name, c.Scope))
		}
		for _, c := range e.Set {
			fmt.Fprintf(&p.out, "    + %s\n", condition(c, c.Since != e.At))
		}
	}
	p.told = len(events)
}

func named(name, scope string) string {
	if scope != "" {
		return name + "(" + scope + ")"
	}
	return name
}

func condition(c domain.Condition, since bool) string {
	s := named(c.Name, c.Scope)
	if since {
		s += " since " + short(c.Since)
	}
	if c.Until != 0 {
		s += " until " + short(c.Until)
	}
	if c.Reason != "" {
		s += " [" + c.Reason + "]"
	}
	return s
}

func (p *player) show(id domain.AccountID) {
	a := p.runner.Account(id)
	if a == nil {
		fmt.Fprintf(&p.out, "%s: no such account\n", id)
		return
	}
	v := p.judge.Describe(a)
	fmt.Fprintf(&p.out, "%s: %s since %s, version %d, %s", id, v.State, short(a.Since), v.Version, v.Desired)
	if a.Forgotten {
		p.out.WriteString(", forgotten")
	}
	var conditions []string
	for _, c := range a.Conditions {
		conditions = append(conditions, condition(c, false))
	}
	can := ""
	for _, what := range machine.Capabilities() {
		if p.judge.Can(a, what, "") {
			can += " " + what
		}
	}
	if can == "" {
		can = " nothing"
	}
	fmt.Fprintf(&p.out, "; %s; can%s; attention %s\n", list(conditions), can, list(v.Attention))
	a.Messages(func(key string, m *domain.Message) bool {
		late := ""
		if m.Late {
			late = " late"
		}
		fmt.Fprintf(&p.out, "    message %s: %s%s\n", key, m.State, late)
		return true
	})
	a.Conversations(func(key string, c *domain.Conversation) bool {
		fmt.Fprintf(&p.out, "    conversation %s: %s, %d open\n", key, c.State, len(c.Turns))
		return true
	})
}

func list(s []string) string {
	if len(s) == 0 {
		return "none"
	}
	return strings.Join(s, ", ")
}

// short prints a time as it stands in scenarios.
func short(ns int64) string {
	t := time.Unix(0, ns).UTC()
	days := int(t.Truncate(24*time.Hour).Sub(day) / (24 * time.Hour))
	s := t.Format("15:04:05.999999999")
	if days != 0 {
		s = strconv.Itoa(days) + "+" + s
	}
	return s
}

var clockForm = regexp.MustCompile(`^(?:(\d+)\+)?(\d\d:\d\d:\d\d(?:\.\d+)?)$`)

// clock reads a time of a scenario.
func clock(s string) (int64, error) {
	m := clockForm.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%q is no time: want HH:MM:SS, or N+HH:MM:SS for N days later", s)
	}
	t, err := time.Parse("15:04:05", m[2])
	if err != nil {
		return 0, err
	}
	days, _ := strconv.Atoi("0" + m[1])
	return day.AddDate(0, 0, days).Add(t.Sub(t.Truncate(24 * time.Hour))).UnixNano(), nil
}

// Trigger reads a step: time ("-" for none), account, trigger, and fields as
// name=value, those of data as data.name=value.
func Trigger(words []string) (domain.Trigger, error) {
	t := domain.Trigger{Expect: domain.NoExpect}
	if len(words) < 3 {
		return t, fmt.Errorf("want a time, an account, a trigger and fields")
	}
	if words[0] != "-" {
		at, err := clock(words[0])
		if err != nil {
			return t, err
		}
		t.At, t.HasAt = at, true
	}
	t.Account, t.Name, t.Source = domain.AccountID(words[1]), words[2], "wm-1"
	for _, word := range words[3:] {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			return t, fmt.Errorf("%q is no name=value", word)
		}
		if err := set(&t, name, value); err != nil {
			return t, err
		}
	}
	return t, nil
}

func set(t *domain.Trigger, name, value string) (err error) {
	if field, ok := strings.CutPrefix(name, "data."); ok {
		if t.Data == nil {
			t.Data = domain.Data{}
		}
		t.Data[field] = dataValue(value)
		return nil
	}
	switch name {
	case "id":
		t.ID = value
	case "key":
		t.Key = value
	case "source":
		t.Source = value
	case "epoch":
		t.Epoch, err = strconv.ParseInt(value, 10, 64)
	case "seq":
		t.Seq, err = strconv.ParseInt(value, 10, 64)
	case "expect":
		t.Expect, err = strconv.ParseInt(value, 10, 64)
	case "by":
		t.By = domain.Initiator(value)
	case "code":
		t.Reason.Code = value
	case "machine":
		t.Machine = value
	case "mode":
		t.Mode = value
	case "label":
		k, v, _ := strings.Cut(value, ":")
		t.Labels = map[string]string{k: v}
	default:
		err = fmt.Errorf("there is no field %q", name)
	}
	return err
}

// dataValue gives a value of data its type: a time, a whole number, true or
// false, an object {name:value}, else text.
func dataValue(s string) any {
	if at, err := clock(s); err == nil {
		return domain.FormatTime(at)
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	if inner, ok := strings.CutPrefix(s, "{"); ok {
		m := map[string]any{}
		if k, v, ok := strings.Cut(strings.TrimSuffix(inner, "}"), ":"); ok {
			m[k] = v
		}
		return m
	}
	switch s {
	case "true", "false":
		return s == "true"
	}
	return s
}

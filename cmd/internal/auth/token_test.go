package auth

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/domain"
)

// TestRoles is the table of who may use what.
func TestRoles(t *testing.T) {
	needs := []Role{Any, Connector, Reader, Operator, Admin, "", "nonsense"}
	for role, want := range map[Role]string{
		Connector:  "yes yes no  no  no  no  no",
		Reader:     "yes no  yes no  no  no  no",
		Operator:   "yes yes yes yes no  no  no",
		Admin:      "yes yes yes yes yes yes yes",
		"":         "no  no  no  no  no  no  no",
		"nonsense": "no  no  no  no  no  no  no",
	} {
		for i, word := range strings.Fields(want) {
			if got := role.Meets(needs[i]); got != (word == "yes") {
				t.Errorf("%q meets %q: %v, want %s", role, needs[i], got, word)
			}
		}
	}
}

func TestSplit(t *testing.T) {
	id, secret, whole := NewSecret()
	if len(id) != 16 || len(secret) != 64 {
		t.Errorf("id %q, secret of %d characters; want 16 and 64", id, len(secret))
	}
	gotID, gotSecret, ok := Split(whole)
	if !ok || gotID != id || gotSecret != secret {
		t.Errorf("Split gives %q %q %v", gotID, gotSecret, ok)
	}
	for _, bad := range []string{
		"", "mst_", "mst__", "mst_" + id, "mst_" + id + "_", "xst_" + id + "_" + secret, "mst_short_" + secret,
		"mst_" + strings.ToUpper(id) + "_" + secret, "mst_" + id[:15] + "*_" + secret, id + "_" + secret,
	} {
		if _, _, ok := Split(bad); ok {
			t.Errorf("%q was taken for a token", bad)
		}
	}
}

func TestTokenCheck(t *testing.T) {
	now := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	good := Token{ID: "aaaaaaaaaaaaaaaa", Hash: HashOf("x"), Role: Reader, By: "ada"}
	connector := good
	connector.Role, connector.Sources = Connector, []string{"waha-1"}
	for name, tt := range map[string]struct {
		base   Token
		change func(*Token)
		want   string // "" = it is good
	}{
		"reader":               {good, func(*Token) {}, ""},
		"connector":            {connector, func(*Token) {}, ""},
		"expires":              {good, func(k *Token) { k.Expires = now.Add(1) }, ""},
		"expired":              {good, func(k *Token) { k.Expires = now }, "expired"},
		"no role":              {good, func(k *Token) { k.Role = "" }, "role"},
		"need as a role":       {good, func(k *Token) { k.Role = Any }, "role"},
		"id":                   {good, func(k *Token) { k.ID = "muster" }, "id"},
		"id that is a subject": {good, func(k *Token) { k.ID = "aaaaaaaa.aaaaaaa" }, "id"},
		"hash":                 {good, func(k *Token) { k.Hash = "x" }, "hash"},
		"short hash":           {good, func(k *Token) { k.Hash = k.Hash[:62] }, "hash"},
		"nobody":               {good, func(k *Token) { k.By = "" }, "by"},
		"reader with sources":  {good, func(k *Token) { k.Sources = []string{"a"} }, "only a connector"},
		"connector without":    {connector, func(k *Token) { k.Sources = nil }, "needs the sources"},
		"source muster":        {connector, func(k *Token) { k.Sources = []string{"muster"} }, "muster"},
		"empty source":         {connector, func(k *Token) { k.Sources = []string{""} }, "source"},
		"many sources":         {connector, func(k *Token) { k.Sources = make([]string, 65) }, "65 sources"},
		"name":                 {good, func(k *Token) { k.Name = "a\nb" }, "name"},
		"rate":                 {good, func(k *Token) { k.Rate = -1 }, "rate"},
	} {
		k := tt.base
		tt.change(&k)
		err := k.check(now)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.want != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want an ErrInvalid with %q", name, err, tt.want)
		}
	}
}

func TestMayTrigger(t *testing.T) {
	of := func(name, source string, by domain.Initiator) *domain.Trigger {
		return &domain.Trigger{Account: "a", Name: name, Source: source, By: by}
	}
	who := map[Role]*Identity{
		Connector: {Role: Connector, Sources: []string{"waha-1"}}, Reader: {Role: Reader}, Operator: {Role: Operator}, Admin: {Role: Admin},
	}
	for name, tt := range map[string]struct {
		trigger *domain.Trigger
		may     string // connector, reader, operator, admin
	}{
		"its own source":      {of("start", "waha-1", ""), "yes no yes yes"},
		"another's source":    {of("start", "waha-2", ""), "no no yes yes"},
		"no source":           {of("start", "", ""), "no no yes yes"},
		"by user":             {of("stop", "waha-1", domain.ByUser), "no no yes yes"},
		"forget":              {of("forget", "waha-1", ""), "no no yes yes"},
		"said by the account": {of("logout", "waha-1", domain.ByRemote), "yes no yes yes"},
	} {
		for i, word := range strings.Fields(tt.may) {
			role := Roles[i]
			err := who[role].MayTrigger(tt.trigger)
			if (err == nil) != (word == "yes") || err != nil && !errors.Is(err, bus.ErrNotAllowed) {
				t.Errorf("%s, %s: %v, want %s", name, role, err, word)
			}
		}
	}
}

package app

import (
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections/accounts"
)

// filterOf reads the filters of a request.
func filterOf(r *api.ListRequest) (f accounts.Filter, err error) {
	f = accounts.Filter{
		Prefix: r.Prefix, Machine: r.Machine, State: r.State, Class: r.Class, Condition: r.Condition, Desired: r.Desired,
		Attention: r.Attention, Labels: r.Labels,
	}
	if r.Source != "" {
		f.Source = &r.Source
	}
	for _, bound := range []struct {
		name, text string
		to         *int64
	}{{"since_from", r.SinceFrom, &f.SinceFrom}, {"since_before", r.SinceBefore, &f.SinceBefore}} {
		if bound.text == "" {
			continue
		}
		at, err := domain.ParseTime(bound.name, bound.text)
		if err != nil {
			return f, invalid("%v", err)
		}
		*bound.to = at
	}
	return f, nil
}

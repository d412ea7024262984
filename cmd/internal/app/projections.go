package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/query"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/projections"
)

// projectionQueries is the table of the questions about the views.
func (a *App) projectionQueries() []query.Query {
	return []query.Query{
		{Name: api.ProjectionsQuery, Description: "How the views fare: which cannot take an event, which are being rebuilt", Handle: query.Of(a.listProjections)},
		{Name: api.RebuildQuery, Description: "Fold a view anew beside the one that answers", Handle: query.Of(a.rebuildProjection)},
	}
}

func (a *App) listProjections(context.Context, api.ProjectionsRequest) (any, error) {
	asOf := a.views.runner.AsOf()
	s := a.views.runner.Status()
	out := api.Projections{Projections: make([]api.Projection, 0, len(s.Views)), Alarms: map[string]uint64{}, SavedAt: timeText(s.SavedAt), AsOf: asOf}
	for _, v := range s.Views {
		out.Projections = append(out.Projections, projectionOf(&v))
	}
	for kind, n := range s.Alarms {
		out.Alarms[kind.String()] = n
	}
	return out, nil
}

func projectionOf(v *projections.ViewStatus) api.Projection {
	p := api.Projection{Name: v.Name, Version: v.Version, State: "live", Halted: v.Halted, Parked: v.Parked}
	switch {
	case v.Rebuild.Running:
		p.State = "rebuilding"
	case len(v.Halted) > 0:
		p.State = "halted"
	case v.Parked > 0:
		p.State = "parked"
	}
	for _, f := range v.Faults {
		p.Faults = append(p.Faults, api.Fault{Partition: f.Partition, Seq: f.Seq, Account: string(f.Account), Error: f.Err})
	}
	if b := v.Rebuild; !b.Started.IsZero() {
		p.Rebuild = api.Rebuild{
			Running: b.Running, Started: timeText(b.Started), Ended: timeText(b.Ended), Done: b.Done, Total: b.Total, PerSecond: b.PerSecond, Failed: b.Failed,
		}
		if left, ok := b.Left(); ok {
			seconds := left.Seconds()
			p.Rebuild.Left = &seconds
		}
	}
	return p
}

// rebuildProjection begins a rebuild, which goes on until it is done or the App
// ends.
func (a *App) rebuildProjection(ctx context.Context, r api.RebuildRequest) (any, error) {
	if r.MaxRate < 0 {
		return nil, invalid("max_rate is %v; it is records per second, 0 for no bound", r.MaxRate)
	}
	runner := a.views.runner
	ended := make(chan error, 1)
	a.wg.Go(func() {
		err := runner.Rebuild(a.views.work, r.Name, r.MaxRate)
		ended <- err
		a.log.Info("a view was rebuilt", "component", "views", "view", r.Name, "error", err)
	})
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				return nil, rebuildError(r.Name, err, runner)
			}
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		for _, v := range runner.Status().Views {
			if v.Name == r.Name && !v.Rebuild.Started.IsZero() {
				return projectionOf(&v), nil
			}
		}
	}
}

func rebuildError(name string, err error, runner *projections.Runner) error {
	switch {
	case errors.Is(err, projections.ErrNoView):
		var names []string
		for _, v := range runner.Status().Views {
			names = append(names, v.Name)
		}
		return notFound("there is no view %q; there are %s", name, strings.Join(names, ", "))
	case errors.Is(err, projections.ErrRebuilding):
		return &bus.Error{Code: http.StatusConflict, Title: "conflict", Detail: err.Error()}
	case errors.Is(err, projections.ErrNotReady):
		return &bus.Error{Code: http.StatusServiceUnavailable, Title: "not caught up", Detail: err.Error(), Retryable: true}
	}
	return err
}

// unsound tells in a sentence each what is wrong with views; nil when nothing is.
func unsound(views []projections.ViewStatus) map[string]string {
	var out map[string]string
	for i := range views {
		v := &views[i]
		if v.Sound() {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		f := v.Faults[0]
		if len(v.Halted) > 0 {
			out[v.Name] = fmt.Sprintf("halted in partitions %v: its answers know nothing newer of them; muster projections rebuild folds it anew; the first event that it could not take: partition %d, sequence %d, account %q: %s",
				v.Halted, f.Partition, f.Seq, f.Account, f.Err)
			continue
		}
		out[v.Name] = fmt.Sprintf("%d events were passed over, the first: partition %d, sequence %d, account %q: %s", v.Parked, f.Partition, f.Seq, f.Account, f.Err)
	}
	return out
}

package main

import (
	"context"
	"testing"

	"github.com/musterhq/muster/cmd/internal/api"
)

func (f *fakeServer) workers(context.Context, api.WorkersRequest) (any, error) {
	return api.Workers{
		Workers: []api.Worker{
			{Name: "waha-1", Boot: "b1", State: "live", LastBeat: "2026-01-01T10:00:00Z", BeatAge: 1.2345, BeatEvery: 10, Accounts: 120},
			{Name: "waha-2", State: "expected", LastBeat: "2026-01-01T09:00:00Z", BeatAge: 3601.5, BeatEvery: 0.2},
		},
		AsOf: api.AsOf{0: 7},
	}, nil
}

func TestWorkers(t *testing.T) {
	f := fake(t)
	for format, golden := range map[string]string{"table": "workers.txt", "json": "workers.json", "jsonl": "workers.jsonl"} {
		r := f.run(t, "workers", "-o", format)
		r.want(t, 0, "")
		r.golden(t, golden)
	}
	f.run(t, "workers", "waha-1").want(t, 2, "takes no argument")
}

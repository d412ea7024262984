package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/operator"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/cmd/internal/auth"
)

// putToken puts a token into the data of a server that does not run.
func putToken(ctx context.Context, data string, req api.TokenCreateRequest) (made api.Token, err error) {
	lock, err := bus.LockDir(data)
	if err != nil {
		return made, fmt.Errorf("make a token in %s: %w; without --data the server itself is asked", data, err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	s, err := bus.StartServer(ctx, bus.ServerConfig{Dir: data, Sync: bus.SyncAlways})
	if err != nil {
		return made, fmt.Errorf("make a token in %s: %w", data, err)
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		err = errors.Join(err, s.Shutdown(bounded))
	}()
	nc, err := s.Connect("muster token")
	if err != nil {
		return made, err
	}
	defer nc.Close()
	tokens := auth.New(auth.Config{})
	defer tokens.Close()
	if err := tokens.Load(ctx, nc, 1, 1); err != nil {
		return made, err
	}
	k := auth.Token{ID: req.ID, Hash: req.Hash, Role: auth.Role(req.Role), Sources: req.Sources, Name: req.Name, Rate: req.Rate, By: req.By}
	if req.Expires != "" {
		if k.Expires, err = time.Parse(time.RFC3339Nano, req.Expires); err != nil {
			return made, usage("expires: %w", err)
		}
	}
	if k, err = tokens.Create(ctx, k); err != nil {
		if errors.Is(err, auth.ErrInvalid) {
			return made, as(errUsage, err)
		}
		return made, err
	}
	log, err := operator.Open(ctx, nc, 1)
	if err == nil {
		_, _, err = log.Append(ctx, operator.Action{
			By: req.By, Action: "token_create", Reason: "offline", Target: map[string]string{"token": k.ID, "role": string(k.Role)},
		})
	}
	return auth.View(&k, time.Now()), err
}

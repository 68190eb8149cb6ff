package caddymodule

import (
	"context"
	"errors"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/explain"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
)

// Entrance implements protect.App.
func (a *App) Entrance(ctx context.Context) (protect.Entrance, error) {
	inst, err := a.enter(ctx)
	if err != nil {
		return protect.Entrance{}, err
	}
	return protect.Entrance{
		Authority: inst.authz, SavedForms: inst.authz.SavedForms(), Access: siteAccess{inst.access}, Policies: inst.policies, Pages: inst.pages,
		Counter: inst.core.Metrics, Refusals: inst.core.Refused, Decisions: inst.core.Decided, Admit: inst.admit, Assertions: inst.assertions,
		Transactions: inst.transactions,
		Robots:       inst.core.Robots, Limits: inst.core.Limits, Calls: inst.core.Calls, Usage: inst.core.Usage, Proofs: inst.authz.Proofs(),
		Thumbprint: inst.authz.Thumbprint, Exchange: inst.authz, DeviceBound: inst.identity.Session.BindsDevices(), HasRules: inst.hasRules,
		Leave: inst.leave,
	}, nil
}

// ScopeLevel implements protect.App.
func (a *App) ScopeLevel(name string) (level, assurance int) {
	for _, s := range a.authz.Scopes {
		if s.Name == name {
			return s.Level, s.Assurance
		}
	}
	return 0, 0
}

// Instance implements adminapi.App.
func (a *App) Instance(ctx context.Context) (*adminapi.Instance, error) {
	inst, err := a.enter(ctx)
	if err != nil {
		return nil, errors.New(reason(err))
	}
	out := &adminapi.Instance{
		Scopes: a.Known().Scopes,
		Sites:  a.guardedSites(), PlaceOf: a.Places.Of, Written: a.written, Reseal: inst.reseal, Explain: a.explain,
		Issuer: inst.issuer.String(), Authz: inst.authz, Identity: inst.identity, Access: inst.access, Config: inst.config,
		Store: inst.core.Store, Place: inst.core.Place, Refusals: inst.core.Refused, Decisions: inst.core.Decided, Node: inst.core.Node,
		Limits: inst.core.Limits, Backups: inst.backups, Recorder: inst.manage.Recorder,
		Check: inst.health, Findings: func(ctx context.Context) ([]diagnostic.Finding, error) { return inst.findings(ctx, a) },
		OwnerGroup: a.console.OwnerGroup(),
		Providers:  inst.providers.Check, TestProvider: inst.providers.Test, Log: inst.log, Leave: inst.leave,
	}
	if free := inst.core.Metrics.Free(); free != nil {
		out.Free = free()
	}
	if inst.mail != nil {
		out.Mail = inst.mail
	}
	if inst.texts != nil {
		out.Texts = inst.texts
	}
	if inst.pushes != nil {
		out.Pushes = inst.pushes
	}
	return out, nil
}

// explain evaluates a hypothetical request at the sites of this configuration.
func (a *App) explain(ctx context.Context, q explain.Request, c protect.Caller) (*explain.Answer, error) {
	if inst := a.running.Load(); inst != nil {
		c.Policies, c.Limits = inst.policies, inst.core.Limits
	}
	return a.inventory.Ask(ctx, q, c)
}

// written returns a client as it is written in the configuration, or nil.
func (a *App) written(id string) *client.Client {
	for i := range a.Clients {
		if a.authz.Clients[i].ID == id {
			return &a.Clients[i]
		}
	}
	return nil
}

// health reports whether the instance can serve and write. why is the part of the error that anyone can be shown.
func (i *instance) health(ctx context.Context) (why string, err error) {
	if err = i.check(ctx); err != nil {
		why = reason(err)
	}
	return why, err
}

var (
	_ protect.App  = (*App)(nil)
	_ adminapi.App = (*App)(nil)
)

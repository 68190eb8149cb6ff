package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider/loginmethod"
	"github.com/gatehouse-id/gatehouse/caddymodule/shared"
	"github.com/gatehouse-id/gatehouse/identity/serviceprovider"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// maxBootstrap is the size in bytes of the file of identity { bootstrap }.
const maxBootstrap = 512 << 10

// newUnits opens the configuration units over the store.
func (a *App) newUnits(inst *instance, events *audit.Recorder) (*settings.Service, error) {
	cfg := a.configOf()
	cfg.Reserved = func(ctx context.Context, application string) (bool, error) {
		named := slices.ContainsFunc(a.persons.ServiceProviders.Providers, func(p serviceprovider.Provider) bool { return p.ID == application })
		if named {
			return true, nil
		}
		return inst.hasClient(ctx, application)
	}
	cfg.Clients = map[string]string{}
	for _, c := range a.authz.APIClients {
		if c.Organisation != "" {
			cfg.Clients[c.ID] = c.Organisation
		}
	}
	cfg.APIClients = func() (ids []string) {
		for _, c := range a.authz.APIClients {
			ids = append(ids, c.ID)
		}
		return ids
	}
	return settings.New(a.ctx, cfg, settings.Deps{
		Store: inst.core.Store, Keyring: inst.core.Keyring, Events: events, Origin: a.Origin, Log: a.log.Named("config"),
	})
}

func (a *App) configOf() settings.Config {
	return settings.Config{
		Fixed: a.fixedMethods(), Bootstrap: a.bootstrap, BootstrapFault: a.bootstrapFault, Verify: loginmethod.Verify,
		VerifyMetadata: func(m string) error { return serviceprovider.CheckMetadata(m, time.Now()) }, Mail: a.mailer != nil, Switches: a.switches,
		Policies: a.writtenPolicies, CheckPolicy: a.policyLoader().Check, PolicyUsers: a.policyUsers,
	}
}

// hasClient reports whether there is a client, of the Caddyfile or stored. It fetches no client ID metadata document.
func (i *instance) hasClient(ctx context.Context, id string) (has bool, err error) {
	err = i.core.Store.View(ctx, func(tx storage.Tx) (err error) {
		_, has, err = i.authz.Clients().Find(tx, id)
		return err
	})
	return has, err
}

// loadBootstrap reads and checks the units that an empty storage starts with. An invalid file stops the start only if
// the storage has no units.
func (a *App) loadBootstrap() (err error) {
	r := caddyfileutil.NewResolverAt(a.Places)
	file, ok := r.Text("identity: bootstrap", a.Identity.Bootstrap, nil)
	if err := r.Err(); err != nil {
		return err
	}
	if !ok {
		a.initial, err = a.configOf().Check([]byte("{}"))
		return err
	}
	raw, err := readBootstrap(file)
	if err == nil {
		a.initial, err = a.configOf().Check(raw)
	}
	if err == nil {
		a.bootstrap = raw
		return nil
	}
	err = allProblems(err)
	fault := a.Places.Locate(fmt.Errorf("gatehouse: identity: bootstrap %s: %w", file, err))
	if a.startsEmpty() {
		return fault
	}
	a.bootstrapFault = fault
	a.warn("identity: bootstrap", fmt.Sprintf("identity: bootstrap %s: %v: an empty storage could not start with it", file, err),
		"correct it, or remove the option: this storage already has settings")
	a.initial, err = a.configOf().Check([]byte("{}"))
	return err
}

// startsEmpty reports whether the storage certainly has no settings yet.
func (a *App) startsEmpty() bool {
	kf, ok := a.storage.(shared.KeyFiler)
	if !ok {
		return false
	}
	_, exists := kf.KeyFile()
	return !exists
}

func readBootstrap(file string) ([]byte, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if dir, wdErr := os.Getwd(); wdErr == nil && !filepath.IsAbs(file) {
			return nil, fmt.Errorf("there is no such file in %s, where Caddy was started: write its full path", dir)
		}
		return nil, errors.New("there is no such file: create it, or correct the path")
	}
	if err == nil && len(raw) > maxBootstrap {
		err = errors.New("the file has more than 512 KiB")
	}
	return raw, err
}

// allProblems names everything that is wrong with a file at once. The text of a jsonapi.Error has only the first.
func allProblems(err error) error {
	e := new(jsonapi.Error)
	if !errors.As(err, &e) {
		return err
	}
	details, ok := e.Details.([]jsonapi.Problem)
	if !ok {
		return err
	}
	var texts []string
	for _, p := range details {
		texts = append(texts, strings.TrimPrefix(p.Path+": "+p.Problem, ": "))
	}
	return errors.New(strings.Join(texts, ", and "))
}

// fixedMethods are the providers of the Caddyfile as the configuration API shows them.
func (a *App) fixedMethods() []settings.LoginMethod {
	var out []settings.LoginMethod
	for _, p := range a.persons.Providers {
		m := settings.LoginMethod{
			ID: p.ID, Name: p.Name, Type: a.idps.MethodType(p.ID), Enabled: !p.Disabled,
			IdentityAssuranceLevel: p.Assurance,
		}
		if m.Name == "" {
			m.Name = p.ID
		}
		a.idps.Shown(p.ID, &m)
		out = append(out, m)
	}
	return out
}

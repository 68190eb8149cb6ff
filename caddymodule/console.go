package caddymodule

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/alert"
	"github.com/gatehouse-id/gatehouse/admin/console"
	"github.com/gatehouse-id/gatehouse/admin/console/messages"
	"github.com/gatehouse-id/gatehouse/admin/console/providers"
	"github.com/gatehouse-id/gatehouse/admin/console/settingspages"
	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
)

// consoleSwitch is the switch of the console. With admin in the Caddyfile it is on by default.
const consoleSwitch = "features.admin_console_enabled"

// ownersInPersons adds the group of owners to the persons of the configuration who are owners, so their groups agree
// with it. It returns the other owners.
func (a *App) ownersInPersons() (others []string) {
	group := a.console.OwnerGroup()
	for _, name := range a.owners {
		i := slices.IndexFunc(a.persons.Persons, func(p person.NewPerson) bool { return p.Username == name && p.Partition == "" })
		if i < 0 {
			others = append(others, name)
			continue
		}
		if p := &a.persons.Persons[i]; !slices.Contains(p.Groups, group) {
			p.Groups = append(slices.Clone(p.Groups), group)
		}
	}
	return others
}

// openAlerts opens the service that alerts administrators to events.
func (b *builder) openAlerts() {
	i := b.inst
	d := alert.Deps{
		Store: i.core.Store, Persons: i.identity.Person, Recorder: b.events, Keyring: i.core.Keyring, Random: rand.Reader,
		Client: outbound.New(false, b.allow...), Link: console.EventsOf, Log: i.log.Named("alerts"),
	}
	if i.mail != nil {
		d.Mail = i.mail
	}
	i.alerts = alert.New(d)
}

// files returns the files of the configuration that name options, sites and rules. They are looked up once the sites
// are known.
func (b *builder) files() func() []string {
	var known atomic.Pointer[[]string]
	return func() []string {
		if list := known.Load(); list != nil {
			return *list
		}
		all := map[string]bool{}
		add := func(place string) {
			if i := strings.LastIndexByte(place, ':'); i > 0 {
				all[place[:i]] = true
			}
		}
		for _, place := range b.Places {
			add(place)
		}
		list, err := b.inventory.List()
		for i := range list {
			for _, g := range list[i].Gates {
				add(g.Place)
				for _, r := range g.Rules {
					add(r.Place)
				}
			}
		}
		files := slices.Sorted(maps.Keys(all))
		if err == nil {
			known.Store(&files)
		}
		return files
	}
}

func (b *builder) openConsole() error {
	i, id := b.inst, b.inst.identity
	for _, name := range b.owners {
		id.Person.KeepName(name)
	}
	i.manage = &admin.Service{
		Identity: id, Authz: i.authz, Store: i.core.Store, Recorder: b.events,
		Keyring: i.core.Keyring, Outgoing: i.outgoing(), Limits: i.core.Limits,
	}
	b.openBackups()
	set := settingspages.Deps{Config: i.config, Store: i.core.Store, PlaceOf: b.Places.Of, Names: i.manage.Names}
	var sender notify.Sender
	if i.mail != nil {
		sender = i.mail
	}
	b.openAlerts()
	i.console = console.New(b.console, console.Deps{
		Identity: id, Manage: i.manage, Clients: i.authz.Clients(), Store: i.core.Store, Units: i.config.Units,
		Pages: i.pages, PlaceOf: b.Places.Of, SourceOf: client.Source, Mails: i.mail != nil, Mail: sender, Now: i.now, Log: i.log,
		Setup: providers.Deps{
			Issuer: i.issuer.String(), Config: i.config, Providers: i.providers, Store: i.core.Store, PlaceOf: b.Places.Of, Now: i.now,
			Authz: i.authz, Pages: i.pages, PublicKey: i.core.Keys.Public, OlderKeys: i.core.Keyring.HasOlder, Names: i.manage.Names,
		},
		Alerts:   i.alerts,
		Upkeep:   b.upkeep(),
		Settings: set,
		Messages: messages.Deps{
			Deps: set, Mail: mailConfig(b.App, i.pages), SMS: smsConfig(b.App, i.pages), Sender: sender,
			Recorder: b.events, Manage: i.manage,
		},
		GroupUses: func(ctx context.Context, group string) (places []string, err error) {
			book, _, err := i.policies.Current(ctx)
			if err != nil {
				return nil, err
			}
			for _, use := range b.usesOfGroups(book) {
				if use.group == group {
					places = append(places, use.place)
				}
			}
			return places, nil
		},
		Findings: func(ctx context.Context) ([]diagnostic.Finding, error) { return i.findings(ctx, b.App) },
		Machine:  i.machine,
		Gateway:  b.inventory.Console(b.Instance, i.core.Refused, i.manage, i.config, i.access, i.core.Decided),
	})
	i.pages.SetFiles(b.files())
	i.alerts.Allow = i.console.MayAlert
	i.config.OnSignInChange(i.console.TellOwners)
	for _, name := range b.others {
		made, err := i.manage.MakeOwner(b.ctx, name, b.console.OwnerGroup(), audit.Actor{ID: "configuration", Name: "configuration"})
		if made {
			i.log.Info("an owner of the admin console was created: `caddy gatehouse admin invite` prints a link for the first sign-in",
				zap.String("username", name))
		}
		if err != nil {
			if !person.IsRefusal(err) {
				return fmt.Errorf("admin %s: %w", name, err)
			}
			b.warn("identity: admin", fmt.Sprintf("admin %s: %v", name, err),
				"correct it and reload, or create the account and add it to the group "+b.console.OwnerGroup())
		}
	}
	return nil
}

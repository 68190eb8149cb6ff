package caddymodule

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/listeners"
	"github.com/gatehouse-id/gatehouse/caddymodule/shared"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	clockSlack = 2 * time.Minute // by how much the newest record may be ahead of the clock
	defaultLow = 512 << 20       // bytes of free space below which to warn, where the storage has no watermark
	lowFactor  = 4               // how many watermarks should be free
)

// watermarked is a Storage that refuses writes when less space than its watermark is free.
type watermarked interface {
	// Watermark returns the number of bytes.
	Watermark() uint64
}

// examine returns the current findings: about the machine, the storage, and requirements of the settings.
func (i *instance) examine(ctx context.Context, a *App) ([]diagnostic.Finding, error) {
	var out []diagnostic.Finding
	warn := func(option, reason, fix string) {
		out = append(out, diagnostic.Finding{Severity: diagnostic.Warning, Place: a.Places.Of(option), Reason: reason, Fix: fix, About: option})
	}
	i.examineMachine(a, warn)
	var newest time.Time
	err := i.core.View(ctx, func(tx storage.Tx) (err error) {
		newest, err = audit.Newest(tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	if ahead := newest.Sub(i.now()); ahead > clockSlack {
		warn("storage", fmt.Sprintf("the clock is %s behind the newest record of the storage, so tokens and codes live too long",
			ahead.Round(time.Second)), "set the clock of this machine")
	}
	units, err := i.config.Current(ctx)
	if err != nil {
		return nil, err
	}
	a.missingSenders(units, warn)
	a.missingWay(units, warn)
	if !units.Features.AppPasswordsEnabled {
		a.mu.Lock()
		for _, place := range a.acceptingAt {
			out = append(out, appPasswordsOff(place))
		}
		a.mu.Unlock()
	}
	a.overruled(i.config.Overruled(units), warn)
	if err := i.examineRights(ctx, a, units, warn); err != nil {
		return nil, err
	}
	book, _, err := i.policies.Current(ctx)
	if err != nil {
		return nil, err
	}
	found := func(f diagnostic.Finding) { out = append(out, f) }
	i.examinePolicies(a, units, book, found)
	if err := i.examineGroups(ctx, a, book, found); err != nil {
		return nil, err
	}
	if err := i.examineParties(ctx, a, found); err != nil {
		return nil, err
	}
	if err := i.examinePlans(ctx, a, found); err != nil {
		return nil, err
	}
	expiries, err := i.config.KeyPairs().Expiries(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range expiries {
		name, verb := "the certificate "+e.Name, "expires"
		if e.Name == "" {
			name = "the certificate of Gatehouse itself"
		}
		if e.Over {
			verb = "has expired"
		}
		if e.Over || e.Soon {
			found(diagnostic.Finding{
				Severity: diagnostic.Warning, Place: a.Places.Of("identity"),
				Reason: fmt.Sprintf("%s %s on %s", name, verb, e.NotAfter.UTC().Format(time.DateOnly)), About: "key_pair " + e.Name,
				Fix: "rotate its key pair, beginning with `caddy gatehouse key-pair announce`; replace a certificate from elsewhere by the configuration API",
			})
		}
	}
	return out, nil
}

// maxExamined is the maximum number of members that are examined in a group that gives a role.
const maxExamined = 200

// examineRights finds API clients that can do nothing, since their organisation is gone. Of people with a role in the
// console, it finds credentials that an untrusted party has set, and linked login methods that do not sign them in.
func (i *instance) examineRights(ctx context.Context, a *App, u *settings.Units, warn func(option, reason, fix string)) error {
	for _, c := range a.authz.APIClients {
		id, exists, err := i.config.OrganisationOfClient(ctx, c.ID)
		if err != nil {
			return err
		}
		if id != "" && !exists {
			warn("api_client "+c.ID, fmt.Sprintf("api_client %s: it belongs to the organisation %s, which does not exist, so it can do nothing",
				c.ID, id), "name another one by `organisation`, or none by `organisation *`")
		}
	}
	refused, planted := map[string]bool{}, []string(nil)
	err := i.core.View(ctx, func(tx storage.Tx) error {
		clear(refused)
		planted = nil
		for role := range layout.Roles() {
			group, err := i.identity.Person.GroupID(tx, audit.DefaultPartition, a.console.Group(layout.Roles()[role]))
			if err != nil || group == "" {
				if err != nil {
					return err
				}
				continue
			}
			members, err := i.identity.Person.Members(tx, group, "", maxExamined)
			if err != nil {
				return err
			}
			for _, m := range members {
				list, err := person.PlantedFor(tx, m)
				if err != nil {
					return err
				}
				if len(list) > 0 {
					_, rec, err := i.identity.Person.Find(tx, m)
					if err != nil {
						return err
					}
					for _, p := range list {
						planted = append(planted, p.Warning(rec.Username))
					}
				}
				linked, err := person.CoupledIdentities(tx, m)
				if err != nil {
					return err
				}
				for _, l := range linked {
					refused[l.Provider] = refused[l.Provider] || !u.AdmitsRoles(l.Provider)
				}
			}
		}
		return nil
	})
	for _, reason := range planted {
		warn("identity", reason, "replace it: set a password by `caddy gatehouse person passwd` or a link from the person's page, "+
			"set an address by `caddy gatehouse person set --email`, or have the person connect a linked account again")
	}
	for _, id := range slices.Sorted(maps.Keys(refused)) {
		if refused[id] {
			warn("identity", fmt.Sprintf("the login method %s does not sign in people with a role in the console, and some of them have linked it",
				id), "set its `administrators_enabled` by `caddy gatehouse config import`, or let an owner do so, if you trust it with their accounts")
		}
	}
	return err
}

// examineMachine looks at ports, disk and files.
func (i *instance) examineMachine(a *App, warn func(option, reason, fix string)) {
	for _, l := range listeners.Foreign(listeners.Addresses(a.tree.Listen())) {
		warn("issuer", l.String()+", and gets some of the requests", "stop one of the two")
	}
	if left := i.core.Metrics.Free(); left != nil {
		low := uint64(defaultLow)
		if w, ok := a.storage.(watermarked); ok {
			low = lowFactor * w.Watermark()
		}
		if free := left(); free > 0 && free < low {
			warn("storage", fmt.Sprintf("only %s is free at %s, and a full disk takes no writes", humanize.IBytes(free), i.core.Place),
				"make room, or move the storage")
		}
	}
	_, dir, isDir := strings.Cut(i.core.Place, " ")
	kf, ok := a.storage.(shared.KeyFiler)
	if !ok || !isDir {
		return
	}
	key, _ := kf.KeyFile()
	for _, f := range []struct{ what, path, mode string }{{"the directory of the storage", dir, "700"}, {"the encryption key", key, "600"}} {
		if info, err := os.Stat(f.path); err == nil && info.Mode().Perm()&0o077 != 0 {
			warn("storage", fmt.Sprintf("%s, %s, can be read by others", f.what, f.path), "`chmod "+f.mode+" "+f.path+"`")
		}
	}
}

// missingSenders warns of features that the settings switch on although nothing sends their messages.
func (a *App) missingSenders(u *settings.Units, warn func(option, reason, fix string)) {
	f := u.Features
	mail, sms := a.mailer != nil, a.texter != nil
	activates := person.ActivatesByEmail(u)
	const fixMail = "add `mail smtp smtp.example.com:587 { from no-reply@example.com }`, or switch it off"
	const fixSMS = "add `sms webhook https://sms.example.com/send`, or switch it off"
	for _, need := range []struct {
		on, there         bool
		path, reason, fix string
	}{
		{f.PasswordResetEnabled, mail, "features.password_reset_enabled", "is on, and there is no mail to send the link by", fixMail},
		{
			f.SignUpEnabled && (u.Attributes.Verification.EmailEnabled || activates), mail, "features.sign_up_enabled",
			"is on, and there is no mail to confirm addresses by, so no one can sign up", fixMail,
		},
		{activates, mail, "features.person_activation", "sends links by e-mail, and there is no mail", fixMail},
		{
			u.Attributes.Verification.EmailRequired, mail, "attributes.verification.email_required",
			"is on, and there is no mail to send codes by", fixMail,
		},
		{f.SMSEnabled, sms, "features.sms_enabled", "is on, and there is nothing to send text messages by", fixSMS},
		{
			f.UsernameReminderViaSMSEnabled, sms, "features.username_reminder_via_sms_enabled",
			"is on, and there is nothing to send text messages by", fixSMS,
		},
	} {
		if need.on && !need.there {
			warn(a.Identity.Switches.Option(need.path, "identity: bootstrap"), "settings: "+need.path+" "+need.reason, need.fix)
		}
	}
}

// missingWay warns where everyone must have a second factor, and who has none cannot set one up.
func (a *App) missingWay(u *settings.Units, warn func(option, reason, fix string)) {
	const path = "step_up.actions.allow_set_initial_step_up_method_enabled"
	if strings.ToLower(cmp.Or(u.StepUp.SecondFactor, a.Identity.SecondFactor)) == authn.SecondFactorAlways &&
		!u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled {
		warn("identity: second_factor", "second_factor is always, and "+path+" is off, so people without a second factor cannot sign in",
			"write `set_up_on_demand on` in `identity`, or switch it on in the settings")
	}
}

// overruled warns of options of the Caddyfile that have no effect, since the settings differ.
func (a *App) overruled(paths []string, warn func(option, reason, fix string)) {
	for _, path := range paths {
		option, value := a.Identity.Switches.Option(path, "identity"), "on"
		if a.switches[path] {
			value = "off"
		}
		warn(option, fmt.Sprintf("%s: the settings have %s %s, which takes precedence: it was set by the configuration API or a file", option, path, value),
			"change it there with `caddy gatehouse config import`, or remove the option from the Caddyfile")
	}
}

// examineStart reports the findings of the start, and refuses to share a port with a process that was there before:
// each of the two would get half of the requests. Caddy itself shares ports while a configuration is replaced, within
// one process.
func (a *App) examineStart(i *instance) error {
	for _, d := range i.identity.Differences {
		option := "person " + d.Username
		if d.Option != "" {
			option += ": " + d.Option
		}
		a.warn(option, d.Reason, d.Fix)
	}
	if caddy.ActiveContext().Context == nil {
		for _, l := range listeners.Foreign(listeners.Addresses(a.tree.Listen())) {
			return a.Places.LocateIn(fmt.Errorf("gatehouse: %s, and would get some of the requests: stop it first", l), "issuer")
		}
	}
	found, err := i.examine(a.ctx, a)
	if err != nil {
		return err
	}
	known := slices.Concat(a.findings.All(), a.firsts)
	for _, f := range found {
		if !slices.Contains(known, f) {
			a.logFinding(f)
		}
	}
	return nil
}

// probed asks the other servers that sites depend on.
func (a *App) probed(ctx context.Context) (out []diagnostic.Finding) {
	a.mu.Lock()
	probes := slices.Clone(a.probes)
	a.mu.Unlock()
	found := make([]*diagnostic.Finding, len(probes))
	var all sync.WaitGroup
	for i, probe := range probes {
		all.Go(func() { found[i] = probe(ctx) })
	}
	all.Wait()
	for _, f := range found {
		if f != nil {
			out = append(out, *f)
		}
	}
	return out
}

// findings returns the findings about the configuration and the current ones.
func (i *instance) findings(ctx context.Context, a *App) ([]diagnostic.Finding, error) {
	now, err := i.examine(ctx, a)
	all := a.findings.All()
	for _, f := range slices.Concat(now, a.probed(ctx), a.reloads) {
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all, err
}

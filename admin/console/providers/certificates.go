package providers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// validUntil says when something ends and how many days are left, which needs an eye within a month.
func validUntil(now, until time.Time) web.Cell {
	out := when(until)
	if until.IsZero() {
		return out
	}
	left := until.Sub(now)
	out.Hint = web.Say("console.days.left", "n", int(left/(24*time.Hour)))
	switch {
	case left <= 0:
		out.Hint, out.Kind = web.Say("console.days.over"), "bad"
	case left <= expirySoon:
		out.Kind = "warn"
	}
	return out
}

// certificateCell names a certificate: whose it is, and the beginning of its fingerprint.
func certificateCell(c *x509.Certificate) web.Cell {
	sum := sha256.Sum256(c.Raw)
	return web.Cell{Name: cmp.Or(c.Subject.CommonName, c.Subject.String(), "—"), Note: "SHA-256 " + hex.EncodeToString(sum[:8]) + "…"}
}

// keysPart lists the certificates of a provider and our keys that it knows, with what is left of each, and the way to
// the next step of a rotation for those who may. ok: there are any
func (s *setup) keysPart(v *layout.Visit, p *shownProvider) (part web.ConsolePart, ok bool, err error) {
	part = web.ConsolePart{ID: "keys", Title: web.Say("console.provider.keys")}
	t := &web.Table{
		Label:   part.Title,
		Columns: []string{"console.column.key", "console.column.use", "console.column.valid_until", "console.column.rotation"},
	}
	for _, c := range s.Providers.Certificates(v.Context())[p.ID] {
		t.Rows = append(t.Rows, web.TableRow{Cells: []web.Cell{
			certificateCell(c),
			{Text: web.Say("console.keys.for.check")},
			validUntil(v.Now, c.NotAfter),
			{Text: web.Say("console.keys.theirs")},
		}})
	}
	pairs, err := s.Config.KeyPairs().Summaries(v.Context())
	if err != nil {
		return part, false, err
	}
	uses := s.Providers.KeyUses(v.Context(), p.ID)
	for _, use := range uses {
		i := slices.IndexFunc(pairs, func(k keystore.Summary) bool { return k.Name == use.Name || k.ID == use.Name })
		row := []web.Cell{{Name: use.Name}, {Text: web.Say("console.keys.for." + use.Use)}, layout.OrNone(""), {}}
		if use.Name == "" {
			row[0] = web.Cell{Text: web.Say("console.keys.own")}
		}
		if i >= 0 {
			k := &pairs[i]
			row[2], row[3] = validUntil(v.Now, k.NotAfter), rotation(v, k)
			if p.Type == settings.TypeApple { // who has made it, and knows its other half
				row[3] = web.Cell{Text: web.Say("console.keys.apple")}
			}
		}
		t.Rows = append(t.Rows, web.TableRow{Cells: row})
	}
	if part.Table = t; p.Enabled && len(uses) > 0 {
		part.Text = web.Say("console.provider.keys.text")
	}
	return part, len(t.Rows) > 0, nil
}

// rotation is the next step of the rotation of a key pair, for those who may, and at which it is.
func rotation(v *layout.Visit, k *keystore.Summary) web.Cell {
	at := k.Stage()
	if at == keystore.Fixed {
		return web.Cell{}
	}
	act, param := string(at.NextStep())+"-pair", cmp.Or(k.ID, ownPair)
	cell := web.Cell{}
	if v.Role >= layout.Owner {
		cell = web.Cell{Text: web.Say("console.act." + act), URL: layout.With(layout.Root+keysPath+"/"+act, "pair", param)}
	}
	var stage web.Text
	switch at {
	case keystore.Switched:
		stage = web.Say("console.keys.stage.former", "time", k.Former.Since)
	case keystore.Announced:
		stage = web.Say("console.keys.stage.next", "time", k.Next.Since)
	}
	if cell.URL == "" {
		cell.Text = stage
	} else {
		cell.Hint = stage
	}
	return cell
}

// turnPair takes one step with the keys of the pair of a form.
func (s *setup) turnPair(step keystore.Step) func(*layout.Visit, url.Values) (layout.Result, error) {
	return func(v *layout.Visit, in url.Values) (layout.Result, error) {
		id := layout.Part(in, "pair")
		if id == ownPair {
			id = ""
		}
		err := keystore.Refusal(s.Config.KeyPairs().Rotate(write(v), id, step, v.Actor()))
		if e := new(jsonapi.Error); errors.As(err, &e) {
			if p := layout.CodedProblem("", e.Words); p != nil {
				return layout.Result{}, p
			}
			return layout.Result{}, &layout.Problem{Key: "console.problem.gone"}
		}
		return layout.Result{}, err
	}
}

// shownExpiries bounds what is listed of what ends.
const shownExpiries = 20

// Soon counts the certificates that have expired or expire soon, our own and those of the providers.
func Soon(ctx context.Context, now time.Time, own []keystore.Expiry, d Deps) (n int) {
	count := func(until time.Time) {
		if !until.IsZero() && until.Sub(now) <= expirySoon {
			n++
		}
	}
	for _, e := range own {
		count(e.NotAfter)
	}
	for _, list := range d.Providers.Certificates(ctx) {
		for _, c := range list {
			count(c.NotAfter)
		}
	}
	return n
}

// Expiring lists the certificates that end, the first one first: our own and those of the providers. ok: there are any
func Expiring(v *layout.Visit, own []keystore.Expiry, d Deps) (part web.ConsolePart, ok bool) {
	type row struct {
		until time.Time
		cells []web.Cell
	}
	var rows []row
	add := func(name, use web.Cell, until time.Time) {
		rows = append(rows, row{until, []web.Cell{name, use, validUntil(v.Now, until)}})
	}
	for _, e := range own {
		name := web.Cell{Name: e.Name, URL: layout.Root + keysPath}
		if e.Name == "" {
			name.Text = web.Say("console.keys.own")
		}
		add(name, web.Cell{Text: web.Say("console.keys.ours")}, e.NotAfter)
	}
	for id, list := range d.Providers.Certificates(v.Context()) {
		for _, c := range list {
			name := certificateCell(c)
			name.URL = pathOf(providersPath, id)
			add(name, web.Cell{Text: web.Say("console.keys.of", "name", id)}, c.NotAfter)
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(a.until.Compare(b.until), strings.Compare(a.cells[0].Name, b.cells[0].Name),
			strings.Compare(a.cells[0].Note, b.cells[0].Note))
	})
	t := &web.Table{
		Label:   web.Say("console.expiry.title"),
		Columns: []string{"console.column.certificate", "console.field.owner", "console.column.valid_until"},
	}
	for _, r := range rows[:min(len(rows), shownExpiries)] {
		t.Rows = append(t.Rows, web.TableRow{Cells: r.cells})
	}
	return web.ConsolePart{ID: "expiry", Title: web.Say("console.expiry.title"), Table: t}, len(rows) > 0
}

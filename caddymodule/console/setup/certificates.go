package setup

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/keypair"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// daysLeft says how many days are left until an end, which needs an eye within a month.
func daysLeft(now, until time.Time) page.Cell {
	if until.IsZero() {
		return frame.OrNone("")
	}
	left := until.Sub(now)
	switch days := int(left / (24 * time.Hour)); {
	case left <= 0:
		return page.Cell{Text: page.Say("console.days.over"), Kind: "bad"}
	case left <= expirySoon:
		return page.Cell{Text: page.Say("console.days.left", "n", days), Kind: "warn"}
	default:
		return page.Cell{Text: page.Say("console.days.left", "n", days)}
	}
}

// certificateCell names a certificate: whose it is, and the beginning of its fingerprint.
func certificateCell(c *x509.Certificate) page.Cell {
	sum := sha256.Sum256(c.Raw)
	return page.Cell{Name: cmp.Or(c.Subject.CommonName, c.Subject.String(), "—"), Note: "SHA-256 " + hex.EncodeToString(sum[:8]) + "…"}
}

// keysPart lists the certificates of a provider and our keys that it knows, with what is left of each, and the way to
// the next step of a rotation for those who may. ok: there are any
func (s *setup) keysPart(v *frame.Visit, p *shownProvider) (part page.ConsolePart, ok bool, err error) {
	part = page.ConsolePart{ID: "keys", Title: page.Say("console.provider.keys")}
	t := &page.Table{Label: part.Title, Columns: []string{"console.column.key", "console.column.use", "console.column.valid_until", "console.column.left", "console.column.rotation"}}
	for _, c := range s.Providers.Certificates(v.Context())[p.ID] {
		t.Rows = append(t.Rows, page.TableRow{Cells: []page.Cell{certificateCell(c), {Text: page.Say("console.keys.for.check")}, when(c.NotAfter), daysLeft(v.Now, c.NotAfter), {Text: page.Say("console.keys.theirs")}}})
	}
	pairs, err := s.Config.KeyPairs().Summaries(v.Context())
	if err != nil {
		return part, false, err
	}
	uses := s.Providers.KeyUses(v.Context(), p.ID)
	for _, use := range uses {
		i := slices.IndexFunc(pairs, func(k keypair.Summary) bool { return k.Name == use.Name || k.ID == use.Name })
		row := []page.Cell{{Name: use.Name}, {Text: page.Say("console.keys.for." + use.Use)}, frame.OrNone(""), frame.OrNone(""), {}}
		if use.Name == "" {
			row[0] = page.Cell{Text: page.Say("console.keys.own")}
		}
		if i >= 0 {
			k := &pairs[i]
			row[2], row[3] = when(k.NotAfter), daysLeft(v.Now, k.NotAfter)
			row[4] = rotation(v, k)
			if p.Type == config.TypeApple { // who has made it, and knows its other half
				row[4] = page.Cell{Text: page.Say("console.keys.apple")}
			}
		}
		t.Rows = append(t.Rows, page.TableRow{Cells: row})
	}
	if part.Table = t; p.Enabled && len(uses) > 0 {
		part.Text = page.Say("console.provider.keys.text")
	}
	return part, len(t.Rows) > 0, nil
}

// rotation is the next step of the rotation of a key pair, for those who may, and at which it is.
func rotation(v *frame.Visit, k *keypair.Summary) page.Cell {
	at := k.Stage()
	if at == keypair.Fixed {
		return page.Cell{}
	}
	act, param := string(at.NextStep())+"-pair", cmp.Or(k.ID, ownPair)
	cell := page.Cell{}
	if v.Role >= frame.Owner {
		cell = page.Cell{Text: page.Say("console.act." + act), URL: frame.With(frame.Root+keysPath+"/"+act, "pair", param)}
	}
	var stage page.Text
	switch at {
	case keypair.Switched:
		stage = page.Say("console.keys.stage.former", "time", k.Former.Since)
	case keypair.Announced:
		stage = page.Say("console.keys.stage.next", "time", k.Next.Since)
	}
	if cell.URL == "" {
		cell.Text = stage
	} else {
		cell.Hint = stage
	}
	return cell
}

// turnPair takes one step with the keys of the pair of a form.
func (s *setup) turnPair(step keypair.Step) func(*frame.Visit, url.Values) (frame.Result, error) {
	return func(v *frame.Visit, in url.Values) (frame.Result, error) {
		id := frame.Part(in, "pair")
		if id == ownPair {
			id = ""
		}
		err := s.Config.KeyPairs().Rotate(write(v), id, step, v.Actor())
		switch {
		case errors.Is(err, keypair.ErrUnknown), errors.Is(err, keypair.ErrNoPrivateKey):
			err = &frame.Problem{Key: "console.problem.gone"}
		case errors.Is(err, keypair.ErrStage):
			err = &frame.Problem{Key: "console.keys.stage.problem"}
		}
		return frame.Result{}, err
	}
}

// shownExpiries bounds what is listed of what ends.
const shownExpiries = 20

// Expiring lists the certificates that end, the first one first: our own and those of the providers. ok: there are any
func Expiring(v *frame.Visit, own []keypair.Expiry, d Deps) (part page.ConsolePart, ok bool) {
	type row struct {
		until time.Time
		cells []page.Cell
	}
	var rows []row
	add := func(name, use page.Cell, until time.Time) {
		rows = append(rows, row{until, []page.Cell{name, use, when(until), daysLeft(v.Now, until)}})
	}
	for _, e := range own {
		name := page.Cell{Name: e.Name, URL: frame.Root + keysPath}
		if e.Name == "" {
			name.Text = page.Say("console.keys.own")
		}
		add(name, page.Cell{Text: page.Say("console.keys.ours")}, e.NotAfter)
	}
	for id, list := range d.Providers.Certificates(v.Context()) {
		for _, c := range list {
			name := certificateCell(c)
			name.URL = pathOf(providersPath, id)
			add(name, page.Cell{Text: page.Say("console.keys.of", "name", id)}, c.NotAfter)
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(a.until.Compare(b.until), strings.Compare(a.cells[0].Name, b.cells[0].Name), strings.Compare(a.cells[0].Note, b.cells[0].Note))
	})
	t := &page.Table{Label: page.Say("console.expiry.title"), Columns: []string{"console.column.certificate", "console.column.use", "console.column.valid_until", "console.column.left"}}
	for _, r := range rows[:min(len(rows), shownExpiries)] {
		t.Rows = append(t.Rows, page.TableRow{Cells: r.cells})
	}
	return page.ConsolePart{ID: "expiry", Title: page.Say("console.expiry.title"), Table: t}, len(rows) > 0
}

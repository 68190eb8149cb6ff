package setup

import (
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/identity/keypair"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

const (
	keysPath   = "/keys"
	ownPair    = keypair.OwnID       // what addresses call Gatehouse's own key pair
	expirySoon = 30 * 24 * time.Hour // of a certificate
)

// keysScreen is the keys that sign and decrypt.
func (s *setup) keysScreen() *frame.Screen {
	return &frame.Screen{
		Name: "keys", Path: keysPath, Icon: "key", Role: frame.Viewer, Show: s.showKeys,
		Acts: []*frame.Act{
			{Name: "rotate-keys", Role: frame.Owner, Do: s.rotateKeys},
			{Name: "retire-key", Role: frame.Owner, Danger: true, Hidden: true, Ask: s.askRetire, Do: s.retireKey},
			{Name: "announce-pair", Role: frame.Owner, Hidden: true, Ask: s.askRenew, Do: s.turnPair(keypair.Announce)},
			{Name: "switch-pair", Role: frame.Owner, Hidden: true, Ask: s.askRenew, Do: s.turnPair(keypair.Switch)},
			{Name: "retire-pair", Role: frame.Owner, Danger: true, Hidden: true, Ask: s.askRenew, Do: s.turnPair(keypair.Retire)},
			{Name: "renew-pair", Role: frame.Owner, Danger: true, Hidden: true, Ask: s.askRenew, Do: s.turnPair(keypair.Renew)},
			{Name: "public-key", Role: frame.Viewer, Hidden: true, Ask: askPublic, Do: s.publicKey},
			{Name: "public-pair", Role: frame.Viewer, Hidden: true, Ask: askPublic, Do: s.publicPair},
		},
	}
}

func (s *setup) showKeys(v *frame.Visit) (*page.Console, error) {
	pairs, err := s.Config.KeyPairs().Summaries(v.Context())
	if err != nil {
		return nil, err
	}
	signing := &page.Table{Label: page.Say("console.keys.signing"), Columns: []string{"console.column.key", "console.column.use", "console.column.created", "console.column.signs_until", "console.column.public", "console.column.action"}}
	for _, k := range s.Authz.SigningKeys() {
		kind := map[string]string{"signs": "good", "next": "plain"}[k.Use]
		until := when(k.RetiresAt)
		if k.RetiresAt.IsZero() {
			until = page.Cell{Text: page.Say("console.keys.turns", "time", k.ActiveFrom.Add(keys.Period))}
		}
		use := page.Cell{Text: page.Say("console.keys.use." + k.Use), Kind: kind}
		public := v.Link("public-key", "key", k.ID)
		if k.Use == "verifies" { // it is not published any more
			public = page.Cell{}
		}
		signing.Rows = append(signing.Rows, page.TableRow{Cells: []page.Cell{{Name: k.Algorithm, Note: k.ID}, use, when(k.CreatedAt), until, public, v.Link("retire-key", "key", k.ID)}})
	}
	out := &page.Console{Title: page.Say("console.keys.title"), Actions: v.Buttons(), Parts: []page.ConsolePart{
		{ID: "signing", Title: page.Say("console.keys.signing"), Text: page.Say("console.keys.signing.text"), Table: signing},
		{ID: "pairs", Title: page.Say("console.keys.pairs"), Text: page.Say("console.keys.pairs.text"), Table: s.pairTable(v, pairs)},
		{ID: "sealing", Title: page.Say("console.keys.sealing"), Text: page.Say("console.keys.sealing.one")},
	}}
	if len(pairs) == 0 {
		out.Parts[1].Table, out.Parts[1].Empty = nil, &page.Empty{Text: page.Say("console.keys.pairs.none")}
	}
	if s.OlderKeys() {
		out.Parts[2].Text = page.Say("console.keys.sealing.older")
	}
	return out, nil
}

func (s *setup) pairTable(v *frame.Visit, pairs []keypair.Summary) *page.Table {
	t := &page.Table{Label: page.Say("console.keys.pairs"), Columns: []string{"console.column.name", "console.field.kind", "console.column.valid_until", "console.column.used_by", "console.column.public", "console.column.rotation", "console.column.action"}}
	for i := range pairs {
		p := &pairs[i]
		name, param := page.Cell{Name: p.Name}, p.ID
		if p.ID == "" {
			name, param = page.Cell{Text: page.Say("console.keys.own")}, ownPair
		}
		until := when(p.NotAfter)
		if left := daysLeft(v.Now, p.NotAfter); !p.NotAfter.IsZero() {
			until.Kind, until.Hint = left.Kind, left.Text
		}
		renew := page.Cell{}
		if p.Stage() != keypair.Fixed {
			renew = v.Link("renew-pair", "pair", param)
		}
		public := page.Cell{}
		if p.PEM != nil {
			public = v.Link("public-pair", "pair", param)
		}
		t.Rows = append(t.Rows, page.TableRow{Cells: []page.Cell{name, {Name: p.Type}, until, frame.OrNone(strings.Join(p.UsedBy, ", ")), public, rotation(v, p), renew}})
	}
	return t
}

func (s *setup) rotateKeys(v *frame.Visit, _ url.Values) (frame.Result, error) {
	return frame.Result{}, s.Authz.RotateKeys(write(v), v.Actor())
}

// askRetire names the key, and what it does now.
func (s *setup) askRetire(v *frame.Visit) (frame.Question, error) {
	id, hidden := v.Chosen("key")
	q := frame.Question{Hidden: hidden}
	for _, k := range s.Authz.SigningKeys() {
		if k.ID == id {
			q.Facts = []page.ConsoleFact{
				{Label: "console.column.key", Cells: []page.Cell{{Name: k.Algorithm}, {Name: k.ID, Code: true}}},
				{Label: "console.column.use", Cells: []page.Cell{{Text: page.Say("console.keys.use." + k.Use)}}},
			}
		}
	}
	return q, nil
}

func (s *setup) retireKey(v *frame.Visit, in url.Values) (frame.Result, error) {
	err := s.Authz.RetireKey(write(v), frame.Part(in, "key"), v.Actor())
	if errors.Is(err, keys.ErrUnknown) {
		err = &frame.Problem{Key: "console.problem.gone"}
	}
	return frame.Result{}, err
}

// pairOf is the key pair that a request names. nil: it is unknown.
func (s *setup) pairOf(v *frame.Visit, param string) (*keypair.Summary, error) {
	pairs, err := s.Config.KeyPairs().Summaries(v.Context())
	i := slices.IndexFunc(pairs, func(p keypair.Summary) bool { return p.ID == param || p.ID == "" && param == ownPair })
	if err != nil || i < 0 || param == "" {
		return nil, err
	}
	return &pairs[i], nil
}

// askRenew says what uses the key pair.
func (s *setup) askRenew(v *frame.Visit) (frame.Question, error) {
	param, hidden := v.Chosen("pair")
	q := frame.Question{Hidden: hidden, Fill: []any{"n", page.Say("console.number.places", "n", 0)}}
	p, err := s.pairOf(v, param)
	if p != nil {
		q.Fill = []any{"n", page.Say("console.number.places", "n", len(p.UsedBy))}
		q.Facts = []page.ConsoleFact{{Label: "console.column.name", Cells: []page.Cell{frame.OrNone(p.Name)}}, {Label: "console.column.used_by", Cells: []page.Cell{frame.OrNone(strings.Join(p.UsedBy, ", "))}}}
		if p.ID == "" {
			q.Facts = []page.ConsoleFact{{Label: "console.column.name", Cells: []page.Cell{{Text: page.Say("console.keys.own")}}}}
		}
	}
	return q, err
}

func askPublic(v *frame.Visit) (frame.Question, error) {
	param := "pair"
	if v.URL.Query().Has("key") || v.PostForm.Has("key") {
		param = "key"
	}
	_, hidden := v.Chosen(param)
	return frame.Question{Hidden: hidden}, nil
}

// publicKey downloads the public part of a signing key as a JWK.
func (s *setup) publicKey(_ *frame.Visit, in url.Values) (frame.Result, error) {
	if raw := s.PublicKey(in.Get("key")); raw != nil {
		return download("signing-key.json", "application/jwk+json", raw), nil
	}
	return frame.Result{}, &frame.Problem{Key: "console.problem.gone"}
}

// publicPair downloads the certificate or public key of a key pair, and those that are published beside it.
func (s *setup) publicPair(v *frame.Visit, in url.Values) (frame.Result, error) {
	p, err := s.pairOf(v, in.Get("pair"))
	if err != nil {
		return frame.Result{}, err
	}
	if p == nil || p.PEM == nil {
		return frame.Result{}, &frame.Problem{Key: "console.problem.gone"}
	}
	body := slices.Clone(p.PEM)
	for _, beside := range []*keypair.Spare{p.Next, p.Former} {
		if beside != nil {
			body = append(body, beside.PEM...)
		}
	}
	return download("key-pair.pem", "application/x-pem-file", body), nil
}

// download is a file that the browser saves.
func download(name, kind string, body []byte) frame.Result {
	return frame.Result{File: &frame.File{Name: name, Type: kind, Write: func(w io.Writer) error {
		_, err := w.Write(body)
		return err
	}}}
}

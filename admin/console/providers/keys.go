package providers

import (
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

const (
	keysPath   = "/keys"
	ownPair    = keystore.OwnID      // what addresses call Gatehouse's own key pair
	expirySoon = 30 * 24 * time.Hour // of a certificate
)

// keysScreen is the keys that sign and decrypt.
func (s *setup) keysScreen() *layout.Screen {
	return &layout.Screen{
		Name: "keys", Path: keysPath, Icon: "key", Role: layout.Viewer, Show: s.showKeys,
		Acts: []*layout.Act{
			{Name: "rotate-keys", Role: layout.Owner, Do: s.rotateKeys},
			{Name: "retire-key", Role: layout.Owner, Danger: true, Hidden: true, Ask: s.askRetire, Do: s.retireKey},
			{Name: "announce-pair", Role: layout.Owner, Hidden: true, Ask: s.askRenew, Do: s.turnPair(keystore.Announce)},
			{Name: "switch-pair", Role: layout.Owner, Hidden: true, Ask: s.askRenew, Do: s.turnPair(keystore.Switch)},
			{Name: "retire-pair", Role: layout.Owner, Danger: true, Hidden: true, Ask: s.askRenew, Do: s.turnPair(keystore.Retire)},
			{Name: "renew-pair", Role: layout.Owner, Danger: true, Hidden: true, Ask: s.askRenew, Do: s.turnPair(keystore.Renew)},
			{Name: "public-key", Role: layout.Viewer, Hidden: true, Ask: askPublic, Do: s.publicKey},
			{Name: "public-pair", Role: layout.Viewer, Hidden: true, Ask: askPublic, Do: s.publicPair},
		},
	}
}

func (s *setup) showKeys(v *layout.Visit) (*web.Console, error) {
	pairs, err := s.Config.KeyPairs().Summaries(v.Context())
	if err != nil {
		return nil, err
	}
	signing := &web.Table{
		Label: web.Say("console.keys.signing"),
		Columns: []string{
			"console.column.key", "console.column.use", "console.column.created", "console.column.signs_until",
			"console.column.public", "console.column.action",
		},
	}
	for _, k := range s.Authz.SigningKeys() {
		kind := map[string]string{"signs": "good", "next": "plain"}[k.Use]
		until := when(k.RetiresAt)
		if k.RetiresAt.IsZero() {
			until = when(k.ActiveFrom.Add(keys.Period))
			until.Hint = web.Say("console.keys.turns")
		}
		use := web.Cell{Text: web.Say("console.keys.use." + k.Use), Kind: kind}
		public := v.Link("public-key", "key", k.ID)
		if k.Use == "verifies" { // it is not published any more
			public = web.Cell{}
		}
		signing.Rows = append(signing.Rows,
			web.TableRow{Cells: []web.Cell{
				{Name: k.Algorithm, Note: k.ID},
				use, when(k.CreatedAt), until, public,
				v.Link("retire-key", "key", k.ID),
			}})
	}
	out := &web.Console{Title: web.Say("console.keys.title"), Actions: v.Buttons(), Parts: []web.ConsolePart{
		{ID: "signing", Title: web.Say("console.keys.signing"), Text: web.Say("console.keys.signing.text"), Table: signing},
		{ID: "pairs", Title: web.Say("console.keys.pairs"), Text: web.Say("console.keys.pairs.text"), Table: s.pairTable(v, pairs)},
		{ID: "sealing", Title: web.Say("console.keys.sealing"), Text: web.Say("console.keys.sealing.one")},
	}}
	if len(pairs) == 0 {
		out.Parts[1].Table, out.Parts[1].Empty = nil, &web.Empty{Text: web.Say("console.keys.pairs.none")}
	}
	if s.OlderKeys() {
		out.Parts[2].Text = web.Say("console.keys.sealing.older")
	}
	return out, nil
}

func (s *setup) pairTable(v *layout.Visit, pairs []keystore.Summary) *web.Table {
	t := &web.Table{
		Label: web.Say("console.keys.pairs"),
		Columns: []string{
			"console.column.name", "console.field.kind", "console.column.valid_until", "console.column.used_by",
			"console.column.public", "console.column.rotation", "console.column.action",
		},
	}
	for i := range pairs {
		p := &pairs[i]
		name, param := web.Cell{Name: p.Name}, p.ID
		if p.ID == "" {
			name, param = web.Cell{Text: web.Say("console.keys.own")}, ownPair
		}
		renew := web.Cell{}
		if p.Stage() != keystore.Fixed {
			renew = v.Link("renew-pair", "pair", param)
		}
		public := web.Cell{}
		if p.PEM != nil {
			public = v.Link("public-pair", "pair", param)
		}
		t.Rows = append(t.Rows, web.TableRow{Cells: []web.Cell{
			name,
			{Name: p.Type},
			validUntil(v.Now, p.NotAfter), layout.OrNone(strings.Join(p.UsedBy, ", ")),
			public, rotation(v, p), renew,
		}})
	}
	return t
}

func (s *setup) rotateKeys(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{}, s.Authz.RotateKeys(write(v), v.Actor())
}

// askRetire names the key, and what it does now.
func (s *setup) askRetire(v *layout.Visit) (layout.Question, error) {
	id, hidden := v.Chosen("key")
	q := layout.Question{Hidden: hidden}
	for _, k := range s.Authz.SigningKeys() {
		if k.ID == id {
			q.Facts = []web.ConsoleFact{
				{Label: "console.column.key", Cells: []web.Cell{{Name: k.Algorithm}, {Name: k.ID, Code: true}}},
				{Label: "console.column.use", Cells: []web.Cell{{Text: web.Say("console.keys.use." + k.Use)}}},
			}
		}
	}
	return q, nil
}

func (s *setup) retireKey(v *layout.Visit, in url.Values) (layout.Result, error) {
	err := s.Authz.RetireKey(write(v), layout.Part(in, "key"), v.Actor())
	if errors.Is(err, keys.ErrUnknown) {
		err = &layout.Problem{Key: "console.problem.gone"}
	}
	return layout.Result{}, err
}

// pairOf is the key pair that a request names. nil: it is unknown.
func (s *setup) pairOf(v *layout.Visit, param string) (*keystore.Summary, error) {
	pairs, err := s.Config.KeyPairs().Summaries(v.Context())
	i := slices.IndexFunc(pairs, func(p keystore.Summary) bool { return p.ID == param || p.ID == "" && param == ownPair })
	if err != nil || i < 0 || param == "" {
		return nil, err
	}
	return &pairs[i], nil
}

// askRenew says what uses the key pair.
func (s *setup) askRenew(v *layout.Visit) (layout.Question, error) {
	param, hidden := v.Chosen("pair")
	q := layout.Question{Hidden: hidden, Fill: []any{"n", web.Say("console.number.places", "n", 0)}}
	p, err := s.pairOf(v, param)
	if p != nil {
		q.Fill = []any{"n", web.Say("console.number.places", "n", len(p.UsedBy))}
		q.Facts = []web.ConsoleFact{
			{Label: "console.column.name", Cells: []web.Cell{layout.OrNone(p.Name)}},
			{Label: "console.column.used_by", Cells: []web.Cell{layout.OrNone(strings.Join(p.UsedBy, ", "))}},
		}
		if p.ID == "" {
			q.Facts = []web.ConsoleFact{{Label: "console.column.name", Cells: []web.Cell{{Text: web.Say("console.keys.own")}}}}
		}
	}
	return q, err
}

func askPublic(v *layout.Visit) (layout.Question, error) {
	param := "pair"
	if v.URL.Query().Has("key") || v.PostForm.Has("key") {
		param = "key"
	}
	_, hidden := v.Chosen(param)
	return layout.Question{Hidden: hidden}, nil
}

// publicKey downloads the public part of a signing key as a JWK.
func (s *setup) publicKey(_ *layout.Visit, in url.Values) (layout.Result, error) {
	if raw := s.PublicKey(in.Get("key")); raw != nil {
		return download("signing-key.json", "application/jwk+json", raw), nil
	}
	return layout.Result{}, &layout.Problem{Key: "console.problem.gone"}
}

// publicPair downloads the certificate or public key of a key pair, and those that are published next to it.
func (s *setup) publicPair(v *layout.Visit, in url.Values) (layout.Result, error) {
	p, err := s.pairOf(v, in.Get("pair"))
	if err != nil {
		return layout.Result{}, err
	}
	if p == nil || p.PEM == nil {
		return layout.Result{}, &layout.Problem{Key: "console.problem.gone"}
	}
	body := slices.Clone(p.PEM)
	for _, beside := range []*keystore.Spare{p.Next, p.Former} {
		if beside != nil {
			body = append(body, beside.PEM...)
		}
	}
	return download("key-pair.pem", "application/x-pem-file", body), nil
}

// download is a file that the browser saves.
func download(name, kind string, body []byte) layout.Result {
	return layout.Result{File: &layout.File{Name: name, Type: kind, Write: func(w io.Writer) error {
		_, err := w.Write(body)
		return err
	}}}
}

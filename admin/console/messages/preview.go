package messages

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/internal/web/sample"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	previewsPath = messagesPath + "/previews"
	mailPrefix   = "mail."
	textPrefix   = "sms."
	// mostTests is the maximum number of test e-mails of one administrator in an hour.
	mostTests = 10
)

// previewPath is that of the screen of a sample.
func previewPath(id string) string { return layout.Root + previewsPath + "/" + url.PathEscape(id) }

// example is one page, e-mail or text message with made-up data.
type example struct {
	id   string
	page *sample.Sample
	kind notify.Kind // of an e-mail or a text message
	mail bool
}

// examples are all of them: those of pages by their ids, then mail.<kind> and sms.<kind>.
func examples(group string) (out []example) {
	switch group {
	case "mail":
		for _, k := range notify.Kinds() {
			out = append(out, example{id: mailPrefix + string(k), kind: k, mail: true})
		}
	case "sms":
		for _, k := range notify.TextKinds() {
			out = append(out, example{id: textPrefix + string(k), kind: k})
		}
	default:
		for _, s := range sample.All() {
			if s.Group == group {
				out = append(out, example{id: s.ID, page: &s})
			}
		}
	}
	return out
}

func exampleGroups() []string { return append(sample.Groups(), "mail", "sms") }

// exampleOf returns the example of an id, or nil.
func exampleOf(id string) *example {
	var list []example
	switch {
	case strings.HasPrefix(id, mailPrefix):
		list = examples("mail")
	case strings.HasPrefix(id, textPrefix):
		list = examples("sms")
	default:
		for _, s := range sample.All() {
			if s.ID == id {
				return &example{id: id, page: &s}
			}
		}
	}
	if i := slices.IndexFunc(list, func(x example) bool { return x.id == id }); i >= 0 {
		return &list[i]
	}
	return nil
}

// findUses looks which texts each page shows.
func (t *texts) findUses() map[string][]string {
	out := map[string][]string{}
	for _, s := range sample.All() {
		keys, err := t.pages.KeysOf(s.View, s.Failure)
		if err != nil {
			continue // its preview says what is wrong
		}
		for _, key := range keys {
			out[key] = append(out[key], s.ID)
		}
	}
	return out
}

// usesOf returns the ids of the examples that show a text.
func (t *texts) usesOf(key string) (out []string) {
	switch {
	case strings.HasPrefix(key, mailPrefix):
		for _, k := range notify.Kinds() {
			if kind := mailPrefix + string(k); strings.HasPrefix(key, kind+".") {
				out = append(out, kind)
			}
		}
		return out
	case strings.HasPrefix(key, textPrefix):
		return []string{key}
	}
	return t.uses()[key]
}

// title returns the localized title of an example: the title of the page, or the subject of the e-mail.
func (t *texts) title(v *layout.Visit, x *example, locale string) (string, error) {
	switch {
	case x.page != nil:
		return t.pages.TitleOf(v.Context(), x.page.View, x.page.Failure, locale)
	case x.mail:
		m, err := t.compose(v, x, locale)
		return m.Subject, err
	}
	return short(t.SMS.Compose(t.pages.WordsOf(v.Context(), locale), notify.SampleText(x.kind, v.Now))), nil
}

// compose writes an example of an e-mail.
func (t *texts) compose(v *layout.Visit, x *example, locale string) (notify.Message, error) {
	words := t.pages.WordsOf(v.Context(), locale)
	return t.Mail.Compose(words, "preview", notify.SampleOf(x.kind, words, v.Now))
}

// previewsScreen lists the pages and messages that can be looked at.
func (t *texts) previewsScreen() *layout.Screen {
	return &layout.Screen{Name: "previews", Path: previewsPath, Role: layout.Viewer, Show: t.showPreviews}
}

func (t *texts) showPreviews(v *layout.Visit) (*web.Console, error) {
	groups := exampleGroups()
	now, locale := v.URL.Query().Get("group"), t.locale(v)
	if !slices.Contains(groups, now) {
		now = groups[0]
	}
	table := &web.Table{Label: web.Say("console.preview_group." + now), Columns: []string{"console.column.name", "console.column.key"}}
	for _, x := range examples(now) {
		name, err := t.title(v, &x, locale)
		if err != nil {
			return nil, err
		}
		table.Rows = append(table.Rows,
			web.TableRow{
				URL:   previewPath(x.id) + "?" + url.Values{"locale": {locale}}.Encode(),
				Cells: []web.Cell{{Name: name}, {Name: x.id, Code: true}},
			})
	}
	part := web.ConsolePart{ID: "previews", Title: web.Say("console.preview_group." + now), Table: table}
	for _, g := range groups {
		part.Choices = append(part.Choices,
			web.Choice{
				Label: "console.preview_group." + g, URL: v.Path() + "?" + url.Values{"group": {g}, "locale": {locale}}.Encode(),
				Current: g == now,
			})
	}
	out := &web.Console{
		Title: web.Say("console.previews.title"), Up: up(), Lead: web.Say("console.previews.text"),
		Parts: []web.ConsolePart{part},
	}
	if len(t.pages.Spoken(v.Context())) > 1 {
		out.Filter = &web.Filter{
			Action: v.Path(), Hidden: []web.Hidden{{Name: "group", Value: now}},
			Fields: []web.Field{t.localeField(v.Context(), locale)},
		}
	}
	return out, nil
}

func up() *web.Up {
	return &web.Up{Label: web.Say("console.messages.title"), URL: layout.Root + messagesPath}
}

// previewScreen shows one page, e-mail or text message.
func (t *texts) previewScreen() *layout.Screen {
	mails := func(v *layout.Visit) bool { return t.Sender != nil && shownExample(v).mail && verified(v) != "" }
	return &layout.Screen{
		Name: "sample", Path: previewsPath + "/{id}", Role: layout.Viewer, Find: findExample, Show: t.showPreview,
		Acts: []*layout.Act{{Name: "send-test", Role: layout.Operator, When: mails, Ask: t.askTest, Do: t.sendTest}},
	}
}

func shownExample(v *layout.Visit) *example { return v.About.(*example) }

func findExample(v *layout.Visit) error {
	x := exampleOf(v.PathValue("id"))
	if x == nil {
		return webflow.NotFound()
	}
	v.About, v.Called = x, x.id
	return nil
}

// verified is the e-mail address of the person of the visit, if it is their own for sure.
func verified(v *layout.Visit) string {
	if p := &v.SignIn.Person; p.EmailVerified {
		return p.Email
	}
	return ""
}

func (t *texts) showPreview(v *layout.Visit) (*web.Console, error) {
	x, locale := shownExample(v), t.locale(v)
	name, err := t.title(v, x, locale)
	if err != nil {
		return nil, err
	}
	group := "sms"
	switch {
	case x.mail:
		group = "mail"
	case x.page != nil:
		group = x.page.Group
	}
	out := &web.Console{
		Name: name, Tags: []web.Cell{{Text: web.Say("console.preview_group." + group), Kind: "plain"}}, Actions: v.Buttons(),
		Up: &web.Up{
			Label: web.Say("console.previews.title"),
			URL:   layout.Root + previewsPath + "?" + url.Values{"group": {group}, "locale": {locale}}.Encode(),
		},
	}
	shown := web.ConsolePart{}
	spoken := t.pages.Spoken(v.Context())
	if len(spoken) == 1 {
		spoken = nil // nothing to choose
	}
	for _, l := range spoken {
		shown.Choices = append(shown.Choices,
			web.Choice{Label: l.Name, URL: v.Path() + "?" + url.Values{"locale": {l.Locale}}.Encode(), Current: l.Locale == locale})
	}
	if group == "sms" {
		shown.Source = t.SMS.Compose(t.pages.WordsOf(v.Context(), locale), notify.SampleText(x.kind, v.Now))
	} else {
		shown.Text, shown.Frames = web.Say("console.sample.text"), frames(x.id, locale)
	}
	out.Parts = append(out.Parts, shown)
	if x.mail {
		m, err := t.compose(v, x, locale)
		if err != nil {
			return nil, err
		}
		if t.Sender != nil && verified(v) == "" {
			out.Lead = web.Say("console.sample.unverified")
		}
		out.Parts = append(out.Parts, web.ConsolePart{ID: "plain", Title: web.Say("console.sample.plain"), Source: m.Text})
	}
	list, err := t.textsOf(v, x, locale)
	out.Parts = append(out.Parts, web.ConsolePart{ID: "texts", Title: web.Say("console.messages.texts"), Table: list})
	return out, err
}

// frames show an example in both color schemes.
func frames(id, locale string) (out []web.Frame) {
	for _, scheme := range []string{"light", "dark"} {
		out = append(out, web.Frame{
			Title: web.Say("console.scheme." + scheme),
			URL:   previewPath(id) + "/document?" + url.Values{"locale": {locale}, "scheme": {scheme}}.Encode(),
		})
	}
	return out
}

// textsOf lists the texts that an example shows.
func (t *texts) textsOf(v *layout.Visit, x *example, locale string) (*web.Table, error) {
	table := &web.Table{Label: web.Say("console.messages.texts"), Columns: []string{"console.column.text", "console.column.state"}}
	var keys []string
	switch {
	case x.page != nil:
		var err error
		if keys, err = t.pages.KeysOf(x.page.View, x.page.Failure); err != nil {
			return nil, err
		}
	case x.mail:
		keys = []string{
			"mail.greeting", "mail.greeting.nobody", "mail.footer", x.id + ".subject", x.id + ".text", x.id + ".account",
			x.id + ".note", x.id + ".action",
		}
	default:
		keys = []string{x.id}
	}
	for _, key := range keys {
		if w, ok := t.pages.Wording(v.Context(), locale, key); ok {
			table.Rows = append(table.Rows,
				web.TableRow{URL: textPath(key) + "?" + url.Values{"locale": {locale}}.Encode(), Cells: []web.Cell{textCell(w), t.stateCell(w)}})
		}
	}
	return table, nil
}

// documentScreen is the example itself, within a frame or alone. It can do nothing.
func (t *texts) documentScreen() *layout.Screen {
	return &layout.Screen{
		Name: "sample-document", Path: previewsPath + "/{id}/document", Role: layout.Viewer,
		Find: findExample, Show: t.sendDocument,
	}
}

func (t *texts) sendDocument(v *layout.Visit) (*web.Console, error) {
	x, look := shownExample(v), web.Look{Locale: t.locale(v), Dark: v.URL.Query().Get("scheme") == "dark"}
	var err error
	switch {
	case x.page != nil:
		err = t.pages.Preview(v.W, v.Request.Request, x.page.View, x.page.Failure, look)
	case x.mail:
		var m notify.Message
		if m, err = t.compose(v, x, look.Locale); err == nil {
			err = t.pages.PreviewMail(v.W, m.HTML, look)
		}
	default:
		err = v.Redirect(previewPath(x.id))
	}
	if err == nil {
		err = webflow.ErrAnswered
	}
	return nil, err
}

// askTest says where the e-mail goes.
func (t *texts) askTest(v *layout.Visit) (layout.Question, error) {
	return layout.Question{
		Fill: []any{"n", mostTests}, Facts: []web.ConsoleFact{{Label: "console.field.to", Cells: []web.Cell{layout.OrNone(verified(v))}}},
		Fields: []web.Field{t.localeField(v.Context(), t.locale(v))},
	}, nil
}

// errTests says that someone has sent as many tests as they may.
var errTests = errors.New("too many test e-mails")

// sendTest queues the e-mail for the verified address of the administrator, as it is at that moment, and no other.
func (t *texts) sendTest(v *layout.Visit, in url.Values) (layout.Result, error) {
	x, by, at := shownExample(v), v.Actor(), v.Now.UTC()
	if t.Sender == nil || !x.mail {
		return layout.Result{}, &layout.Problem{Key: "console.problem.test_none"}
	}
	locale := t.pages.WordsOf(v.Context(), in.Get("locale"))
	n := notify.SampleOf(x.kind, locale, at)
	n.Sample, n.PersonID, n.Locales = true, v.Me(), []string{in.Get("locale")}
	e, err := t.Recorder.New(testSent, by.Origin)
	if err != nil {
		return layout.Result{}, err
	}
	known := false
	err = t.Store.Update(v.Context(), func(tx storage.Tx) error {
		_, p, err := t.identity.Person.Find(tx, v.Me())
		if err != nil {
			return err
		}
		if known = p.EmailVerified && p.Email != ""; !known {
			return nil
		}
		sent, _, err := audit.Search{
			Partition: audit.DefaultPartition, Since: at.Add(-time.Hour), Types: []string{testSent.Type},
			Actor: by.ID, Limit: mostTests,
		}.Find(tx)
		if err != nil {
			return err
		}
		if len(sent) >= mostTests {
			return errTests
		}
		n.To = p.Email
		if err := t.Sender.Send(tx, n); err != nil {
			return err
		}
		return t.Recorder.Append(tx, by.Fill(e, v.Me(), x.id))
	})
	switch {
	case errors.Is(err, errTests):
		return layout.Result{}, &layout.Problem{Key: "console.problem.tests", Fill: []any{"n", mostTests}}
	case err == nil && !known:
		return layout.Result{}, &layout.Problem{Key: "console.sample.unverified"}
	}
	return layout.Result{}, err
}

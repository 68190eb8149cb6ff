package notify

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Message is one e-mail, ready to be handed over.
type Message struct {
	ID      string // of the Message-ID, the same at each try: <id@host>
	To      string // one bare address
	Subject string // one line
	Text    string
	HTML    string
	Date    time.Time
}

// Transport hands messages over to a mail server. It is safe for concurrent use.
type Transport interface {
	// Deliver returns nil when the server has taken the message. An error that wraps outbox.ErrRefused means that the
	// message is lost, one that wraps outbox.ErrAlone that the server may take others. It ends within a bounded time.
	Deliver(ctx context.Context, m Message) error
	// Check returns nil when the server answers and accepts the credentials. It sends nothing.
	Check(ctx context.Context) error
}

// MailConfig says how e-mails look.
type MailConfig struct {
	Issuer      string // origin of links, no trailing slash
	Brand       string
	Ground, Ink string // of the button: #rrggbb
	// Tried is called after each try. It may be nil.
	Tried func(err error)
}

// Mail sends notices by e-mail, from an outbox. A notice is tried until the server accepts it, so it may arrive twice,
// with the same Message-ID and the same words.
type Mail struct {
	Deps[Transport]
	*sealedQueue[Notice]

	cfg MailConfig
}

// firstWait is the time between the first and the second try. A try is always shorter.
const firstWait = 30 * time.Second

//go:embed mail.html
var mailHTML string

var mailTemplate = template.Must(template.New("mail").Parse(mailHTML))

// NewMail returns a Mail.
func NewMail(c MailConfig, d Deps[Transport]) (*Mail, error) {
	u, err := url.Parse(c.Issuer)
	if err != nil || u.Host == "" {
		return nil, errors.New("mail: want the issuer")
	}
	d.defaults(time.Now, rand.Reader)
	m := &Mail{Deps: d, cfg: c}
	m.sealedQueue = newSealedQueue(d, mails, "gatehouse notice v1", m.deliver,
		outbox.Config{Lane: "mail", First: firstWait, AtOnce: 4, Keep: mailKept, Tried: c.Tried})
	return m, nil
}

// Send implements Sender. A notice with an invalid address is logged and dropped, so it does not undo its cause.
func (m *Mail) Send(tx storage.Tx, n Notice) error {
	if !IsAddress(n.To) {
		m.Log.Error("notice without an address", zap.String("kind", string(n.Kind)), zap.String("person_id", n.PersonID))
		return nil
	}
	return m.add(tx, n.At, n)
}

// IsAddress reports whether a text is one bare e-mail address without characters that are special in headers. (RFC 5322
// 3.4.1)
func IsAddress(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s && len(s) <= 254 && strings.Count(s, "@") == 1 && !strings.ContainsFunc(s, isUnsafe)
}

func isUnsafe(c rune) bool {
	return unicode.IsControl(c) || unicode.IsSpace(c) || strings.ContainsRune(`,;:<>()[]"\`, c)
}

// Check reports whether the mail server accepts the credentials.
func (m *Mail) Check(ctx context.Context) error { return m.Transport.Check(ctx) }

// Try sends a test message to an address at once, past the queue. Its error says what the mail server answered.
func (m *Mail) Try(ctx context.Context, to string) error {
	if !IsAddress(to) {
		return fmt.Errorf("%q is not an e-mail address", to)
	}
	id, err := secret.ID(m.Random, 16)
	if err != nil {
		return err
	}
	msg, err := m.compose(ctx, id, Notice{Kind: Test, To: to, At: m.Now()})
	if err != nil {
		return err
	}
	return m.Transport.Deliver(ctx, msg)
}

// deliver makes one try.
func (m *Mail) deliver(ctx context.Context, id string, n Notice) error {
	if n.Kind == Nothing {
		return nil
	}
	msg, err := m.compose(ctx, id, n)
	if err != nil {
		return fmt.Errorf("write mail: %w: %w", err, outbox.ErrRefused)
	}
	if err := m.Transport.Deliver(ctx, msg); err != nil {
		return fmt.Errorf("%s: %w", n.Kind, err)
	}
	m.Log.Info("mail handed over", zap.String("kind", string(n.Kind)), zap.String("id", id), zap.String("person_id", n.PersonID))
	return nil
}

// mailPage is the data of mail.html.
type mailPage struct {
	Lang, Subject, Brand, Greeting string
	Ground, Ink                    template.CSS // of the operator; checked
	Paragraphs                     []string
	Code                           string // the paragraph with the code to type
	Link, Action                   string
	Footer                         string
}

// compose writes an e-mail in the words of the moment.
func (m *Mail) compose(ctx context.Context, id string, n Notice) (Message, error) {
	return m.cfg.Compose(m.Words(ctx, n.Locales), id, n)
}

// Compose writes an e-mail.
func (c MailConfig) Compose(words web.Words, id string, n Notice) (Message, error) {
	if !isGreeted(n.Name) {
		n.Name = ""
	}
	key := "mail." + string(n.Kind)
	pairs := []any{"brand", c.Brand, "to", n.To, "name", n.Name, "time", n.At}
	if !n.Until.IsZero() {
		pairs = append(pairs, "until", n.Until)
	}
	for name, v := range n.Data {
		if name == "method" {
			v = words.T("security." + v + ".title")
		}
		pairs = append(pairs, name, v)
	}
	if len(n.Events) > 0 {
		var lines []string
		for _, e := range n.Events {
			lines = append(lines, e.line(words))
		}
		pairs = append(pairs, "events", strings.Join(lines, "\n\n"))
	}
	p := mailPage{
		Lang: words.Lang(), Subject: oneLine(words.T(key+".subject", pairs...)), Brand: c.Brand, Ground: css(c.Ground, "#2457d6"),
		Ink:      css(c.Ink, "#ffffff"),
		Greeting: words.T("mail.greeting", pairs...), Footer: words.T("mail.footer", pairs...),
	}
	p.Code = n.Data["code"]
	switch {
	case n.Kind == AccessRequested:
		p.Footer = words.T("mail.footer.operator", pairs...)
	case n.Kind == QuotaReached:
		p.Footer = words.T("mail.footer.contact", pairs...)
	case n.Kind.toOrganisation():
		p.Footer = words.T("mail.footer.organisation", pairs...)
	case n.PersonID == "":
		p.Footer = words.T("mail.footer.nobody", pairs...)
	}
	if n.Name == "" {
		p.Greeting = words.T("mail.greeting.nobody", pairs...)
	}
	for part := range strings.SplitSeq(words.T(key+".text", pairs...), "\n\n") {
		if part = strings.TrimSpace(part); part != "" {
			p.Paragraphs = append(p.Paragraphs, part)
		}
	}
	if a := n.Data["account"]; IsAddress(a) || a != "" && oneLine(a) == a && isGreeted(a) {
		p.Paragraphs = slices.Insert(p.Paragraphs, min(1, len(p.Paragraphs)), words.T(key+".account", pairs...))
	}
	if n.Data["note"] != "" {
		p.Paragraphs = append(p.Paragraphs, words.T(key+".note", pairs...))
	}
	switch {
	case strings.HasPrefix(n.Link, "/"):
		p.Link, p.Action = c.Issuer+n.Link, words.T(key+".action", pairs...)
	case strings.HasPrefix(n.Link, "https://"), strings.HasPrefix(n.Link, "http://"):
		p.Link, p.Action = n.Link, words.T(key+".action", pairs...)
	}
	if n.Sample {
		p.Subject = oneLine(words.T("mail.sample.subject", "subject", p.Subject))
		p.Paragraphs = slices.Insert(p.Paragraphs, 0, words.T("mail.sample.text", pairs...))
	}
	var html bytes.Buffer
	if err := mailTemplate.Execute(&html, p); err != nil {
		return Message{}, err
	}
	return Message{ID: id + "@" + hostOf(c.Issuer), To: n.To, Subject: p.Subject, Text: p.text(), HTML: html.String(), Date: n.At}, nil
}

// hostOf returns the host of an issuer, which NewMail and NewTexts have looked at.
func hostOf(issuer string) string {
	u, err := url.Parse(issuer)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// addressForm matches text that mail programs turn into links.
var addressForm = regexp.MustCompile(`[:/@]|(?i:www\.)|[^\s.]\.[^\s.]{2}`)

// IsPlain reports whether a text has nothing that a mail program would turn into a link.
func IsPlain(text string) bool { return !addressForm.MatchString(text) }

// isGreeted reports whether a name can stand in a mail: people choose their names, which must not become links.
func isGreeted(name string) bool {
	return utf8.RuneCountInString(name) <= 100 && IsPlain(name)
}

var colorForm = regexp.MustCompile(`^#[0-9a-f]{6}$`)

// css returns a colour that may stand in a style.
func css(color, otherwise string) template.CSS {
	if !colorForm.MatchString(color) {
		color = otherwise
	}
	return template.CSS(color) //nolint:gosec // six digits
}

// text is the page without markup.
func (p mailPage) text() string {
	parts := append([]string{p.Greeting}, p.Paragraphs...)
	if p.Link != "" {
		parts = append(parts, p.Action+":\n"+p.Link)
	}
	return strings.Join(append(parts, "-- \n"+p.Footer), "\n\n") + "\n" // RFC 3676 4.3
}

// maxSubject is the length in characters of a subject.
const maxSubject = 200

// oneLine makes a header of a text: line ends and all other control characters become spaces.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(c rune) bool {
		return unicode.IsControl(c) || unicode.IsSpace(c) || c == '\u2028' || c == '\u2029'
	}), " ")
	if r := []rune(s); len(r) > maxSubject {
		s = string(r[:maxSubject-1]) + "…"
	}
	return s
}

package web

import (
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"
)

// StepUp is the data of step_up: the person confirms again who they are. With a Method its form sends csrf and code;
// without one it lists Choices. The messages of a method are step_up.<Method>.choice, .text and .label.
type StepUp struct {
	Account      string
	Another      string // same-origin link for someone else. Empty: none
	Method       string
	Action, CSRF string
	// Digits says that a code has digits only, Hidden that onlookers must not read it.
	Digits, Hidden bool
	// Send says that codes go to To when the person asks for one: send in the form. Sent: a code was sent.
	Send, Sent bool
	To         string
	// Ask says that the same button asks another person for a code, Asked that this was done.
	Ask, Asked bool
	Problem    string // as in SignIn
	Wait       int
	// Forgot is the link to replace a forgotten PIN. Empty: none
	Forgot string
	// Others is the link to the other methods. Empty: none
	Others  string
	Choices []StepUpChoice
	// SetUp says that Choices are methods to set up now.
	SetUp  bool
	Cancel string
}

// StepUpChoice is a link to a method.
type StepUpChoice struct{ Method, URL string }

// Icon is the name of the drawing next to it.
func (c StepUpChoice) Icon() string {
	switch c.Method {
	case "authenticator", "sms", "push":
		return "phone"
	case "email", "delivered":
		return "mail"
	case "pin", "pin_reset":
		return "lock"
	}
	return "key"
}

// Security is the data of security: how the person proves who they are.
type Security struct {
	Sections []SecuritySection
	Back     string
}

// SecuritySection is one part of it. Its messages are security.<Key>.title and security.<Key>.<State>, with {n} for
// Count, filled in by Fill.
type SecuritySection struct {
	Key, State string
	Count      int
	Fill       []any     // pairs of name and value
	Used       time.Time // last. Zero: never, or unknown
	Items      []Row     // such as passkeys
	Actions    []SecurityAction
}

// Text describes the state.
func (s SecuritySection) Text() Text {
	return Text{"security." + s.Key + "." + s.State, append([]any{"n", strconv.Itoa(s.Count)}, s.Fill...)}
}

// LastUsed says when it was last used.
func (s SecuritySection) LastUsed() Text { return Say("security.passkey.used", "time", s.Used) }

// badges are the kinds of the marks of the states that have one.
var badges = map[string]string{"on": "good", "off": "", "locked": "bad", "advised": "info"}

// Badge returns the mark next to the title, nil for states without one.
func (s SecuritySection) Badge() *Badge {
	state := s.State
	if s.Key == "passkey" && state == "off" {
		state = "advised"
	}
	kind, ok := badges[state]
	if !ok {
		return nil
	}
	return &Badge{kind, "security.state." + state}
}

// Badge is a short mark. Text is a message, Kind that of a notice or empty.
type Badge struct{ Kind, Text string }

// SecurityAction is a link. Label is the key of its message.
type SecurityAction struct{ Label, URL string }

// Danger reports whether something is taken away.
func (a SecurityAction) Danger() bool { return a.Label == "security.remove" }

// Authenticator is the data of authenticator: a secret for an app. Its form sends csrf and code.
type Authenticator struct {
	Action, CSRF string
	QR           QR
	URI          string // that an app on the same device opens: otpauth
	Secret       string // Base32
	Problem      string // as in SignIn
	Cancel       string
}

// Open is the link to an app on the same device. Browsers know no such scheme, so templates would not let it pass.
func (a Authenticator) Open() template.URL {
	if !strings.HasPrefix(a.URI, "otpauth://") {
		return ""
	}
	return template.URL(a.URI) //nolint:gosec // G203: of that scheme alone
}

// Groups returns the secret in groups of four, which are easier to type.
func (a Authenticator) Groups() string {
	var out []string
	for g := range slices.Chunk([]byte(a.Secret), 4) {
		out = append(out, string(g))
	}
	return strings.Join(out, " ")
}

// PIN is the data of pin: a new PIN. Its form sends csrf, pin and again.
type PIN struct{ Action, CSRF, Problem, Cancel string }

// Recovery is the data of recovery: codes that are shown once. Its form sends csrf and codes back for a file.
type Recovery struct {
	Action, CSRF string
	Codes        []string
	Added        string // authenticator or passkey: what was just set up. Empty: nothing
	Next         string
}

// All returns the codes as the form sends them.
func (r Recovery) All() string { return strings.Join(r.Codes, " ") }

// Confirm is the data of confirm: the messages <Key>.title, <Key>.text, with {name} for Name, and <Key>.submit. Its
// form sends csrf.
type Confirm struct{ Key, Name, Action, CSRF, Cancel string }

// Danger reports whether something is taken away.
func (c Confirm) Danger() bool { return strings.HasPrefix(c.Key, "remove.") }

// QR is a code as a drawing: a path in a square of Size, with the quiet border that readers need.
type QR struct {
	Size int
	Path string
}

// quietZone is the border of a QR code in modules. (ISO/IEC 18004 6.3.8)
const quietZone = 4

// NewQR draws a code of size modules on each side.
func NewQR(size int, black func(x, y int) bool) QR {
	var b strings.Builder
	for y := range size {
		for x := 0; x < size; x++ {
			if !black(x, y) {
				continue
			}
			from := x
			for x < size && black(x, y) {
				x++
			}
			n := strconv.Itoa(x - from)
			b.WriteString("M" + strconv.Itoa(from+quietZone) + " " + strconv.Itoa(y+quietZone) + "h" + n + "v1h-" + n + "z")
		}
	}
	return QR{Size: size + 2*quietZone, Path: b.String()}
}

// Name returns the name of the operator's brand.
func (p *Renderer) Name() string { return p.cfg.Brand.Name }

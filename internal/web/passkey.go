package web

// Passkey is the form that a passkey signs. With scripts it shows a button, and sends csrf, credential (the answer of
// the passkey in JSON) and remember. Without scripts it is hidden.
type Passkey struct {
	Action, CSRF string
	// Options are the options for the browser's interface in JSON, with bytes as Base64URL. (Web Authentication Level 3
	// 5.4 and 5.5)
	Options string
	// Create makes a passkey; otherwise one is used.
	Create bool
	// Remember says that the person can ask to stay signed in.
	Remember bool
	// Offer lets the browser also suggest passkeys in the username field.
	Offer bool
	// Quiet is for a page with another main action.
	Quiet bool
	// Label is the message of the button.
	Label string
	// Again is the page's own path, to load it again with a fresh challenge.
	Again string
	// Life is the validity of the challenge in Options, in seconds.
	Life int
}

// PasskeyUpgrade is the data of passkey_upgrade, on which a browser makes a passkey without a question. Its form sends
// csrf and credential, which is empty where none was made.
type PasskeyUpgrade struct{ Action, CSRF, Options string }

// StepUpPasskey is the data of step_up_passkey: the person confirms who they are with a passkey.
type StepUpPasskey struct {
	Account string
	Another string // as in StepUp
	Passkey *Passkey
	Problem string // as in SignIn
	Wait    int
	Others  string // link to the other methods. Empty: none
	Cancel  string
}

// PasskeyAdd is the data of passkey_add. Full is the number of passkeys if no more can be added; Passkey is empty then.
type PasskeyAdd struct {
	Passkey *Passkey
	Full    int
	Problem string
	Cancel  string
}

// PasskeyName is the data of passkey_name. Its form sends csrf and name.
type PasskeyName struct {
	Action, CSRF  string
	Name, Problem string
	Cancel        string
}

// Field is the field for the name.
func (p PasskeyName) Field() Field {
	return Field{
		Name: "name", Label: "passkey_name.label", Value: p.Name, MaxLength: 64, Required: true, Focus: true,
		EnterKeyHint: "go", Problem: p.Problem,
	}
}

// passkey is the data of the template "passkey".
type passkey struct {
	Passkey
	Text, Cancelled, Failed, Known, Unsupported string
}

// Passkey returns the form with its texts.
func (f *frame) Passkey(in *Passkey) passkey {
	f.Needs("passkey")
	return passkey{
		Passkey: *in, Text: f.T(in.Label), Cancelled: f.T("problem.passkey_cancelled"), Failed: f.T("problem.passkey_failed"),
		Known: f.T("problem.passkey_known"), Unsupported: f.T("problem.passkey_unsupported"),
	}
}

// helpBox is the data of the template "stuck".
type helpBox struct{ Summary, Text, Help, HelpText, Account, AccountText string }

// Stuck says what a person can do who cannot use their passkey: passkey.help leads to the account, where a password and
// a recovery code are enough, passkey.ask is for people without another way.
//
//	{{template "stuck" (.Stuck "passkey.ask")}}
func (f *frame) Stuck(key string) helpBox {
	out := helpBox{Summary: f.T("passkey.trouble"), Text: f.Say(Text{Key: key}), Help: f.Help, HelpText: f.T("footer.help")}
	if key == "passkey.help" {
		out.Account, out.AccountText = "/account", f.T("error.back")
	}
	return out
}

package page

// Passkey is the form that a passkey signs: where scripts run it shows a button, and sends csrf, credential (what the passkey says, in JSON) and
// remember. Elsewhere nobody sees it.
type Passkey struct {
	Action, CSRF string
	// Options are those of the browser's interface in JSON, their bytes as Base64URL. (Web Authentication Level 3 5.4 and 5.5)
	Options string
	// Create makes a passkey; otherwise one is used.
	Create bool
	// Remember says that the person may ask to stay signed in.
	Remember bool
	// Offer lets the browser offer passkeys in the field for the username, too.
	Offer bool
	// Quiet is for a page where it is not the main thing.
	Quiet bool
	// Label is the message of the button.
	Label string
	// Again is the page's own path, to load it again with a fresh challenge.
	Again string
	// Life is how many seconds the challenge in Options is good for.
	Life int
}

// StepUpPasskey is the data of step_up_passkey: the person shows by a passkey who they are.
type StepUpPasskey struct {
	Account string
	Passkey *Passkey
	Problem string // as in SignIn
	Wait    int
	Others  string // leads to the other methods. Empty: there are none
	Cancel  string
}

// PasskeyAdd is the data of passkey_add. Full is how many there are where there can be no more; then there is no Passkey.
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
	return Field{Name: "name", Label: "passkey_name.label", Value: p.Name, MaxLength: 64, Required: true, Focus: true, EnterKeyHint: "go", Problem: p.Problem}
}

// passkey is what the template "passkey" sees.
type passkey struct {
	Passkey
	Text, Cancelled, Failed, Known, Unsupported string
}

// Passkey returns the form with its texts.
func (f frame) Passkey(in *Passkey) passkey {
	f.Needs("passkey")
	return passkey{
		Passkey: *in, Text: f.T(in.Label), Cancelled: f.T("problem.passkey_cancelled"), Failed: f.T("problem.passkey_failed"),
		Known: f.T("problem.passkey_known"), Unsupported: f.T("problem.passkey_unsupported"),
	}
}

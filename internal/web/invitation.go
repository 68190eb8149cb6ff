package web

// Invitation is the data of invitation: an invited person chooses how to sign in from now on. Its form sends csrf, and
// the fields or idp.
type Invitation struct {
	Action, CSRF string
	Account      string  // username
	Fields       []Field // of the password. Empty: passwords are not offered
	// Providers can sign the person in instead. Their URL is what idp sends.
	Providers []Provider
}

// InvitationCheck is the data of invitation_check: an invited person proves to be the recipient. Its form sends csrf,
// and answer, send or skip.
type InvitationCheck struct {
	Action, CSRF string
	// Way is birthdate, sms or code. Empty: the person chooses.
	Way     string
	Fields  []Field
	To      string // recipient of the code, masked
	Send    bool   // the way sends a code
	Sent    bool   // a code was sent and is expected
	Skip    bool   // the person can continue without
	Choices []InvitationChoice
	Problem string // message key. Empty: none
	Wait    int    // seconds
}

// InvitationChoice is a link to a way.
type InvitationChoice struct{ Way, URL string }

// Icon is the name of the drawing next to it.
func (c InvitationChoice) Icon() string {
	switch c.Way {
	case "birthdate":
		return "person"
	case "sms":
		return "phone"
	}
	return "mail"
}

package web

// Fields are the fields of the form.
func (s SignIn) Fields() []Field {
	list := []Field{usernameField(s.Username, s.Problem)}
	if s.Passkey != nil && s.Passkey.Offer {
		list[0].Autocomplete += " webauthn"
	}
	if !s.NoPassword {
		list = append(list, passwordField(s.Problem))
	}
	list = Fields(s.Problem != "", list...)
	if !s.NoPassword && s.CanRemember {
		list = append(list, Field{
			Name: "remember", Type: "checkbox", Label: "sign_in.remember",
			Hint: "sign_in.remember.hint", Checked: s.Remember,
		})
	}
	return list
}

// Notice is the key of the notice above the form.
func (s SignIn) Notice() string {
	if s.Problem == "problem.mismatch" && s.ForgotURL != "" {
		return "problem.mismatch_reset"
	}
	return s.Problem
}

// Fields are the fields of the form.
func (c Connect) Fields() []Field {
	if c.Known != "" {
		return nil
	}
	return Credentials(c.Username, c.Problem)
}

// Credentials are the fields of a username and its password. Problem is as in SignIn.
func Credentials(username, problem string) []Field {
	return Fields(problem != "", usernameField(username, problem), passwordField(problem))
}

func usernameField(value, problem string) Field {
	return Field{
		Name: "username", Label: "sign_in.username", Value: value, Autocomplete: "username", Required: true,
		Invalid: problem == "problem.mismatch" || problem == "problem.username" || problem == "problem.domain",
	}
}

func passwordField(problem string) Field {
	return Field{
		Name: "password", Type: "password", Label: "sign_in.password", Autocomplete: "current-password", Required: true,
		Invalid: problem == "problem.mismatch" || problem == "problem.password",
	}
}

// Field is the field for the code.
func (s StepUp) Field() Field {
	f := Field{
		Name: "code", Type: "code", Label: "step_up." + s.Method + ".label", InputMode: "text", MaxLength: 64, Required: true,
		EnterKeyHint: "go", Invalid: s.Problem != "", Focus: s.Wait == 0,
	}
	if s.Digits {
		f.InputMode = "numeric"
	}
	if s.Hidden {
		f.Type, f.Autocomplete = "secret", "off"
	}
	return f
}

// Field is the field for the code.
func (a Authenticator) Field() Field {
	return Field{
		Name: "code", Type: "code", Label: "step_up.authenticator.label", MaxLength: 64, Required: true, EnterKeyHint: "go",
		Invalid: a.Problem != "", Focus: a.Problem != "",
	}
}

// Fields are the fields of the form.
func (p PIN) Fields() []Field {
	pin := Field{
		Name: "pin", Type: "secret", Label: "pin.label", InputMode: "numeric", MinLength: 6, MaxLength: 12, Required: true,
		Invalid: p.Problem != "",
	}
	again := pin
	again.Name, again.Label = "again", "pin.again"
	return Fields(p.Problem != "", pin, again)
}

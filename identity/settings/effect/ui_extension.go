package effect

var uiExtension = []Effect{
	does("ui_extension.enable_login_redirect",
		"Who would see the sign-in page is sent to another one first: base_url and login_path, with the address to go on to in the parameter return.", "LoginElsewhere"),
	does("ui_extension.base_url", "Where that page is: its origin, and the path before login_path.", "LoginElsewhere"),
	does("ui_extension.login_path", "The path of that page.", "LoginElsewhere"),
}

package effect

var redirects = []Effect{
	does("redirects.default_origin_url",
		"The origin of the paths below, and the end of a sign-in that no application asked for. Empty: the issuer, and its account page.",
		"Redirects"),
	does("redirects.url_after_activation", "The page after an activation that does not sign in.", "ActivationDuringFirstAuthentication"),
	does("redirects.url_after_login", "The page after a sign-in that no application asked for.", "Redirects"),
	does("redirects.url_after_logout", "The page after a sign-out that no client asked for.", "Redirects"),
	does("redirects.url_after_sign_up", "The page after a sign-up or an accepted invitation.", "InvitationRedirects"),
	does("redirects.show_wait_page_while_logging_in",
		"After a sign-in, a page names the destination of the browser until the application there answers.", "WaitPage"),
	does("redirects.url_whitelist[].id", "Names the entry where it is removed.", "WhitelistedURLs"),
	does("redirects.url_whitelist[].url",
		"An allowed destination of the parameter redirect of /sign-in and /sign-out: this origin, at or below this path.", "RedirectParameter"),
}

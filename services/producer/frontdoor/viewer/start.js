// The page's policy forbids scripts inside the page, so the viewer is started from here.
SwaggerUIBundle({
	url: "/openapi.json",
	dom_id: "#viewer",
	deepLinking: true,
	tryItOutEnabled: true,
	displayRequestDuration: true,
	validatorUrl: null, // a service on the Internet
	requestInterceptor: (request) => {
		// The viewer spreads the example of a batch over several lines, but a line is one payment.
		if (request.headers["Content-Type"] === "application/x-ndjson") {
			try {
				request.body = JSON.stringify(JSON.parse(request.body));
			} catch { /* several lines, as they should be */ }
		}
		return request;
	},
});

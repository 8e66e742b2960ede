// ask has the shim ask the picker, and sends the request to the first endpoint that it names.
async function ask(r) {
	const headers = {};
	for (const name in r.headersIn) {
		if (!['host', 'content-length', 'connection'].includes(name.toLowerCase())) headers[name] = r.headersIn[name];
	}
	r.variables.picks = String(Number(r.variables.picks || 0) + 1);
	let a;
	try {
		a = await ngx.fetch(`http://${r.variables.shim}${r.variables.request_uri}`, { method: r.method, headers, body: r.requestText || '' });
	} catch (e) {
		r.error(`the shim: ${e}`);
		r.return(500, 'no shim');
		return;
	}
	const text = await a.text();
	const list = a.headers.get('x-picked');
	if (!list) { // the picker answers by itself
		['content-type', 'retry-after', 'x-llm-d-request-dropped-reason'].forEach((name) => {
			const value = a.headers.get(name);
			if (value) r.headersOut[name] = value;
		});
		r.return(a.status, text);
		return;
	}
	r.variables.text = text;
	r.variables.rest = list;
	send(r);
}

// send sends the request to the next of the list.
function send(r) {
	const list = r.variables.rest.split(',');
	r.variables.to = list.shift();
	r.variables.rest = list.join(',');
	r.internalRedirect('@send');
}

// next is called where an engine could not be reached, or broke off before its answer.
async function next(r) {
	if (r.variables.rest) {
		send(r);
	} else if (Number(r.variables.picks) < 5) { // by then the picker's probes have found out
		await new Promise((done) => setTimeout(done, 500 * Number(r.variables.picks)));
		await ask(r);
	} else {
		r.return(502, 'no engine could be reached');
	}
}

export default { ask, next };

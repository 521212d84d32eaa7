"""An SMTP server that a test owns: aiosmtpd, told what to answer.

The configuration comes as JSON in the first argument, instructions as JSON lines on standard input; what happens goes
out as JSON lines. It ends when its standard input does.
"""

import asyncio
import email
import email.policy
import json
import ssl
import sys
import threading

from aiosmtpd.smtp import SMTP, AuthResult

config = json.loads(sys.argv[1])
# What the next commands of a kind are answered in place of success.
answers = {"MAIL": [], "RCPT": [], "DATA": []}
# Closed: the end of DATA is not answered.
gate = None


def tell(event, **what):
    print(json.dumps({"event": event, **what}), flush=True)


def next_answer(command):
    return answers[command].pop(0) if answers[command] else None


def authenticate(server, session, envelope, mechanism, data):
    login, password = data.login.decode(), data.password.decode()
    success = [login, password] == config["credentials"]
    tell("login", login=login, success=success)
    # Not handled: aiosmtpd answers, with 235 or 535.
    return AuthResult(success=success, handled=False, auth_data=data)


class Handler:
    async def handle_MAIL(self, server, session, envelope, address, options):
        answer = next_answer("MAIL")
        if answer is None:
            envelope.mail_from = address
            envelope.mail_options.extend(options)
        return answer or "250 OK"

    async def handle_RCPT(self, server, session, envelope, address, options):
        answer = next_answer("RCPT")
        if answer is None:
            envelope.rcpt_tos.append(address)
        return answer or "250 OK"

    async def handle_DATA(self, server, session, envelope):
        answer = next_answer("DATA") or "250 OK"
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        text, html = (message.get_body((kind,)) for kind in ("plain", "html"))
        login = getattr(session, "login_data", None)
        tell(
            "mail",
            sender=envelope.mail_from,
            recipients=envelope.rcpt_tos,
            utf8="SMTPUTF8" in envelope.mail_options,
            encrypted=session.ssl is not None or config["tls"] == "wrapped",
            login=login.decode() if login else None,
            hello=session.host_name,
            headers=[[name, str(value)] for name, value in message.items()],
            kind=message.get_content_type(),
            text=text.get_content() if text else None,
            html=html.get_content() if html else None,
            raw=envelope.content.decode("utf-8", "replace"),
            answer=answer,
        )
        await gate.wait()
        return answer


def instruct(instruction):
    if "answer" in instruction:
        answers[instruction["to"]].append(instruction["answer"])
    elif instruction.get("gate") == "open":
        gate.set()
    elif instruction.get("gate") == "closed":
        gate.clear()
    tell("instructed")


def listen_to_owner(loop):
    for line in sys.stdin:
        loop.call_soon_threadsafe(instruct, json.loads(line))
    loop.call_soon_threadsafe(loop.stop)


async def start(loop):
    global gate
    gate = asyncio.Event()
    gate.set()
    context = None
    if config["tls"]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(config["certificate"], config["key"])
    is_starttls = config["tls"] == "starttls"

    def session():
        return SMTP(
            Handler(),
            hostname="mail.test",
            enable_SMTPUTF8=config["utf8"],
            tls_context=context if is_starttls else None,
            require_starttls=is_starttls,
            auth_require_tls=is_starttls,
            auth_required=config["credentials"] is not None,
            authenticator=authenticate,
            loop=loop,
        )

    wrapping = context if config["tls"] == "wrapped" else None
    server = await loop.create_server(session, "127.0.0.1", config["port"], ssl=wrapping)
    tell("ready", port=server.sockets[0].getsockname()[1])


loop = asyncio.new_event_loop()
loop.run_until_complete(start(loop))
threading.Thread(target=listen_to_owner, args=(loop,), daemon=True).start()
loop.run_forever()

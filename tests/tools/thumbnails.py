"""Compares thumbnails of a server with Pillow's: `thumbnails.py BASE EMAIL PASSWORD`. Prints one JSON array."""

import io
import json
import sys
import urllib.request

from PIL import Image, ImageChops, ImageCms, ImageOps, ImageStat

BASE, EMAIL, PASSWORD = sys.argv[1:4]
SIZES = ["80x60", "60x80t", "60x80b", "90x90f", "70x0", "0x50", "400x300"]


def send(method, path, body=None, content_type="application/json", cookie=None):
    headers = {"Content-Type": content_type, **({"Cookie": cookie} if cookie else {})}
    request = urllib.request.Request(BASE + path, data=body, headers=headers, method=method)
    return urllib.request.urlopen(request)


answer = send("POST", "/auth/login", json.dumps({"email": EMAIL, "password": PASSWORD}).encode())
COOKIE = "; ".join(line.split(";")[0] for line in answer.headers.get_all("set-cookie"))


def scene(width, height, mode="RGB"):
    """A picture without a symmetry: gradients, and a bright corner."""
    across = Image.linear_gradient("L").rotate(90).resize((width, height))
    down = Image.linear_gradient("L").resize((width, height))
    image = Image.merge("RGB", (across, down, ImageChops.invert(across)))
    image.paste((250, 240, 20), (0, 0, width // 4, height // 5))
    if mode == "RGBA":
        image.putalpha(down)
        return image
    return image.convert(mode)


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def turned(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return saved(scene(200, 120), "JPEG", quality=95, exif=exif)


profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
deep = Image.new("I;16", (200, 120))
deep.putdata([(x * 300 + y * 20) % 65536 for y in range(120) for x in range(200)])
IMAGES = {
    "photo.jpg": saved(scene(300, 200), "JPEG", quality=95),
    "gray.jpg": saved(scene(300, 200, "L"), "JPEG", quality=95),
    "progressive.jpg": saved(scene(301, 199), "JPEG", quality=95, progressive=True),
    "ink.jpg": saved(scene(300, 200, "CMYK"), "JPEG", quality=95),
    "profile.jpg": saved(scene(300, 200), "JPEG", quality=95, icc_profile=profile),
    "profile.png": saved(scene(300, 200), "PNG", icc_profile=profile),
    "plain.png": saved(scene(200, 300), "PNG"),
    "gray.png": saved(scene(200, 300, "L"), "PNG"),
    "clear.png": saved(scene(300, 200, "RGBA"), "PNG"),
    "palette.png": saved(scene(300, 200).quantize(200), "PNG"),
    "deep.png": saved(deep, "PNG"),
    "still.gif": saved(scene(300, 200).quantize(200), "GIF"),
    "moving.gif": saved(scene(300, 200).quantize(200), "GIF", save_all=True, append_images=[scene(300, 200).rotate(90)]),
    "photo.webp": saved(scene(300, 200), "WEBP", quality=95),
    "clear.webp": saved(scene(300, 200, "RGBA"), "WEBP", lossless=True),
    "tall.png": saved(scene(20, 900), "PNG"),
    **{f"turned{orientation}.jpg": turned(orientation) for orientation in range(1, 9)},
}


def on_white(image):
    if image.mode in ("I;16", "I"):
        image = image.point(lambda value: value / 257).convert("L")
    image = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")


def expected(image, size):
    image = ImageOps.exif_transpose(image)
    if image.mode == "P":
        image = image.convert("RGBA")
    if image.mode in ("I;16", "I"):
        image = image.point(lambda value: value / 257).convert("L")
    letter = size[-1] if size[-1] in "tbf" else ""
    width, height = (int(side) for side in size.rstrip("tbf").split("x"))
    if letter != "f" and width and height:
        above = {"t": 0.0, "b": 1.0, "": 0.5}[letter]
        return ImageOps.fit(image, (width, height), Image.Resampling.LANCZOS, centering=(0.5, above))
    scale = min((width or 1e9) / image.width, (height or 1e9) / image.height, 1)
    to = tuple(max(1, int(side * scale + 0.5)) for side in image.size)
    return image.resize(to, Image.Resampling.LANCZOS)


report = []
for name, content in IMAGES.items():
    file = json.load(send("POST", f"/_files?name={name}", content, "application/octet-stream", COOKIE))
    body = json.dumps({"image": {"id": file["id"]}}).encode()
    url = json.load(send("POST", "/pictures", body, cookie=COOKIE))["data"]["image"]["url"]
    original = Image.open(io.BytesIO(content))
    for size in SIZES:
        answer = send("GET", f"{url}?thumbnail={size}", cookie=COOKIE)
        made, wanted = Image.open(io.BytesIO(answer.read())), expected(original, size)
        entry = {"name": name, "size": size, "type": answer.headers["content-type"], "hasSize": made.size == wanted.size}
        if made.size == wanted.size:
            difference = ImageStat.Stat(ImageChops.difference(on_white(made), on_white(wanted))).mean
            entry["difference"] = max(difference)
        else:
            entry["sizes"] = [made.size, wanted.size]
        entry["keepsProfile"] = made.info.get("icc_profile") == original.info.get("icc_profile")
        entry["isUpright"] = 0x0112 not in made.getexif()
        report.append(entry)
print(json.dumps(report))

"""What our households are made of: rooms, receptacles, objects, and where things may lie.

Names are the domain's own kinds, so that a generated game speaks the same language as a real one; the
tables themselves are ours.
"""

from __future__ import annotations

OPENABLE = frozenset({"Cabinet", "Drawer", "Fridge", "Microwave", "Safe"})
"""Receptacles that start closed."""

LAMPS = frozenset({"DeskLamp", "FloorLamp"})
"""Objects that can be switched and not carried."""

PROPERTIES = {
    "heatable": "Apple Bread Cup Egg Mug Plate Potato Tomato",
    "coolable": "Apple Bowl Bread Cup Egg Lettuce Mug Pan Plate Pot Potato Tomato WineBottle",
    "cleanable": "Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Kettle Knife Ladle Lettuce Mug Pan "
    "Plate Pot Potato SoapBar Spatula Spoon Tomato",
    "sliceable": "Apple Bread Egg Lettuce Potato Tomato",
    "isReceptacleObject": "Bowl Box Cup Mug Pan Plate Pot",
}
"""Kinds of object that have each property."""

RECEPTACLES: dict[str, dict[str, tuple[int, int]]] = {
    "kitchen": {
        "Cabinet": (5, 13),
        "CoffeeMachine": (1, 1),
        "CounterTop": (1, 3),
        "DiningTable": (0, 1),
        "Drawer": (3, 8),
        "Fridge": (1, 1),
        "GarbageCan": (1, 1),
        "Microwave": (1, 1),
        "Shelf": (0, 3),
        "SideTable": (0, 1),
        "SinkBasin": (1, 1),
        "StoveBurner": (2, 4),
        "Toaster": (1, 1),
    },
    "bathroom": {
        "BathtubBasin": (0, 1),
        "Cabinet": (2, 6),
        "Cart": (0, 1),
        "CounterTop": (1, 2),
        "Drawer": (1, 5),
        "GarbageCan": (1, 1),
        "HandTowelHolder": (1, 2),
        "Shelf": (0, 3),
        "SinkBasin": (1, 2),
        "Toilet": (1, 1),
        "ToiletPaperHanger": (1, 1),
        "TowelHolder": (1, 2),
    },
    "bedroom": {
        "ArmChair": (0, 1),
        "Bed": (1, 2),
        "Desk": (1, 2),
        "Drawer": (3, 11),
        "Dresser": (0, 1),
        "GarbageCan": (1, 1),
        "LaundryHamper": (0, 1),
        "Safe": (0, 1),
        "Shelf": (1, 6),
        "SideTable": (1, 2),
    },
    "livingroom": {
        "ArmChair": (1, 3),
        "Cabinet": (0, 5),
        "CoffeeTable": (1, 2),
        "DiningTable": (0, 1),
        "Drawer": (2, 8),
        "Dresser": (0, 1),
        "GarbageCan": (1, 1),
        "Ottoman": (0, 1),
        "Safe": (0, 1),
        "Shelf": (0, 5),
        "SideTable": (1, 3),
        "Sofa": (1, 2),
        "TVStand": (0, 1),
    },
}
"""Fewest and most of each receptacle in a room of each kind."""

_FOOD = "Fridge CounterTop DiningTable SideTable SinkBasin Microwave GarbageCan"
_VESSEL = "Fridge CounterTop DiningTable SideTable SinkBasin Cabinet Shelf Microwave"
_CUTLERY = "Drawer CounterTop DiningTable SideTable SinkBasin"
_SEATS = "Sofa ArmChair Ottoman"
_TOPS = "CoffeeTable DiningTable SideTable Dresser Shelf TVStand"
_SMALL = "Bed Desk Drawer Dresser SideTable Shelf"

CONTAINS: dict[str, dict[str, str]] = {
    "kitchen": {
        "Apple": _FOOD,
        "Bowl": _VESSEL,
        "Bread": "Fridge CounterTop DiningTable SideTable Microwave GarbageCan",
        "ButterKnife": _CUTLERY,
        "Cup": _VESSEL,
        "DishSponge": "CounterTop SinkBasin Cabinet Drawer GarbageCan Shelf",
        "Egg": _FOOD,
        "Fork": _CUTLERY,
        "Kettle": "StoveBurner CounterTop Cabinet SinkBasin Shelf",
        "Knife": _CUTLERY,
        "Ladle": "Drawer CounterTop Cabinet DiningTable SinkBasin",
        "Lettuce": "Fridge CounterTop DiningTable SideTable SinkBasin GarbageCan",
        "Mug": f"{_VESSEL} CoffeeMachine",
        "Pan": "StoveBurner CounterTop Cabinet DiningTable SinkBasin Fridge",
        "PepperShaker": "CounterTop Cabinet Drawer DiningTable SideTable Shelf",
        "Plate": _VESSEL,
        "Pot": "StoveBurner CounterTop Cabinet DiningTable SinkBasin Fridge Shelf",
        "Potato": _FOOD,
        "SaltShaker": "CounterTop Cabinet Drawer DiningTable SideTable Shelf",
        "SoapBottle": "CounterTop Cabinet Drawer GarbageCan Shelf",
        "Spatula": _CUTLERY,
        "Spoon": _CUTLERY,
        "Tomato": _FOOD,
        "WineBottle": "Fridge CounterTop Cabinet DiningTable GarbageCan Shelf",
    },
    "bathroom": {
        "Candle": "CounterTop Toilet Cabinet Drawer Shelf Cart",
        "Cloth": "BathtubBasin SinkBasin Cabinet Drawer CounterTop Toilet Shelf Cart GarbageCan",
        "DishSponge": "BathtubBasin SinkBasin Cabinet Drawer CounterTop Toilet Shelf Cart GarbageCan",
        "HandTowel": "HandTowelHolder Cabinet CounterTop Drawer SinkBasin Toilet Shelf Cart GarbageCan",
        "SoapBar": "BathtubBasin SinkBasin Toilet CounterTop Cabinet Drawer Shelf Cart GarbageCan",
        "SoapBottle": "Toilet CounterTop Cabinet Drawer Shelf Cart GarbageCan",
        "SprayBottle": "Toilet CounterTop Cabinet Drawer Shelf Cart GarbageCan",
        "ToiletPaper": "ToiletPaperHanger Toilet CounterTop Cabinet Drawer Shelf Cart GarbageCan",
        "Towel": "TowelHolder",
    },
    "bedroom": {
        "AlarmClock": "Desk Dresser SideTable Shelf",
        "Book": f"{_SMALL} ArmChair",
        "Bowl": "Desk Dresser SideTable Shelf",
        "CD": "Desk Drawer Dresser SideTable Shelf Safe GarbageCan",
        "CellPhone": f"{_SMALL} Safe ArmChair",
        "CreditCard": "Desk Drawer Dresser SideTable Shelf Safe ArmChair",
        "DeskLamp": "Desk Dresser SideTable",
        "KeyChain": "Desk Drawer Dresser SideTable Shelf Safe ArmChair",
        "Laptop": "Bed Desk Dresser SideTable ArmChair",
        "Mug": "Desk Dresser SideTable Shelf",
        "Pen": "Desk Drawer Dresser SideTable Shelf GarbageCan",
        "Pencil": "Desk Drawer Dresser SideTable Shelf GarbageCan",
        "Pillow": "Bed ArmChair",
        "TissueBox": "Desk Drawer Dresser SideTable Shelf GarbageCan",
        "Vase": "Desk Dresser SideTable Shelf Safe",
    },
    "livingroom": {
        "Book": f"{_SEATS} CoffeeTable DiningTable SideTable Dresser Shelf Drawer Cabinet",
        "Box": f"{_SEATS} CoffeeTable DiningTable SideTable Dresser Shelf",
        "CellPhone": f"{_SEATS} CoffeeTable DiningTable SideTable Dresser Shelf Drawer Safe",
        "CreditCard": f"{_SEATS} CoffeeTable DiningTable SideTable Dresser Shelf Drawer Safe",
        "FloorLamp": "SideTable CoffeeTable",
        "KeyChain": f"{_SEATS} CoffeeTable DiningTable SideTable Dresser Shelf Drawer Safe",
        "Laptop": f"{_SEATS} CoffeeTable DiningTable SideTable Dresser",
        "Newspaper": f"{_SEATS} CoffeeTable DiningTable SideTable Dresser Shelf Drawer Cabinet GarbageCan",
        "Pillow": _SEATS,
        "Plate": "CoffeeTable DiningTable SideTable Shelf Cabinet",
        "RemoteControl": f"{_SEATS} CoffeeTable DiningTable SideTable Dresser Shelf Drawer",
        "Statue": f"{_TOPS} Safe",
        "TissueBox": f"{_TOPS} Drawer Cabinet GarbageCan",
        "Vase": f"{_TOPS} Cabinet Safe",
        "Watch": "CoffeeTable DiningTable SideTable Dresser Shelf Drawer TVStand",
        "WateringCan": "CoffeeTable DiningTable SideTable Dresser Drawer Shelf Cabinet",
    },
}
"""Where each object of a room may lie and may be put."""

GOALS: dict[str, dict[str, tuple[str, ...]]] = {
    "pick_and_place_simple": {
        "kitchen": ("PepperShaker Drawer", "SoapBottle Cabinet", "Mug CoffeeMachine", "Egg Microwave"),
        "bathroom": ("SprayBottle Toilet", "SoapBar Cabinet", "ToiletPaper Drawer"),
        "bedroom": ("Book Bed", "KeyChain Drawer", "Pencil Shelf"),
        "livingroom": ("RemoteControl Sofa", "Vase CoffeeTable", "Newspaper ArmChair"),
    },
    "look_at_obj_in_light": {
        "bedroom": ("Book DeskLamp", "AlarmClock DeskLamp", "CD DeskLamp", "Pillow DeskLamp", "Mug DeskLamp"),
        "livingroom": ("Newspaper FloorLamp", "Statue FloorLamp", "Laptop FloorLamp", "Box FloorLamp"),
    },
    "pick_clean_then_place_in_recep": {
        "kitchen": (
            "Plate Cabinet",
            "Fork Drawer",
            "Mug CoffeeMachine",
            "Lettuce Fridge",
            "Pan StoveBurner",
            "Knife CounterTop",
        ),
        "bathroom": ("Cloth Cabinet", "SoapBar Drawer", "DishSponge Toilet"),
    },
    "pick_heat_then_place_in_recep": {
        "kitchen": (
            "Potato Fridge",
            "Egg CounterTop",
            "Mug Cabinet",
            "Apple GarbageCan",
            "Tomato Fridge",
            "Plate Cabinet",
            "Cup CounterTop",
        ),
    },
    "pick_cool_then_place_in_recep": {
        "kitchen": (
            "Apple Microwave",
            "Bowl Cabinet",
            "Lettuce CounterTop",
            "Mug CoffeeMachine",
            "Pot StoveBurner",
            "Tomato SinkBasin",
            "Bread CounterTop",
        ),
    },
    "pick_two_obj_and_place": {
        "bathroom": ("ToiletPaper Cabinet", "SoapBottle Toilet", "Candle CounterTop", "SprayBottle Drawer"),
        "bedroom": ("CD Desk", "Laptop Bed", "Pen Drawer", "CellPhone SideTable"),
        "livingroom": (
            "KeyChain CoffeeTable",
            "CreditCard ArmChair",
            "Watch SideTable",
            "RemoteControl Sofa",
        ),
    },
}
"""What tasks ask for, by type and room: an object and a receptacle or lamp. Train and test share them.

No pair in a kitchen: the planner needs minutes for those.
"""

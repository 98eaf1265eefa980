<?xml version="1.0" encoding="UTF-8"?>
<tileset version="1.10" tiledversion="1.10.2" name="town" tilewidth="16" tileheight="16" tilecount="11" columns="11">
 <image source="tiles.png" width="176" height="16" />
 <tile id="0">
  <properties>
   <property name="terrain" value="WALL" />
  </properties>
 </tile>
 <tile id="1">
  <properties>
   <property name="terrain" value="PAVEMENT" />
  </properties>
 </tile>
 <tile id="2">
  <properties>
   <property name="terrain" value="ROAD" />
  </properties>
 </tile>
 <tile id="3">
  <properties>
   <property name="terrain" value="CROSSWALK" />
  </properties>
 </tile>
 <tile id="4">
  <properties>
   <property name="terrain" value="PARK" />
  </properties>
 </tile>
 <tile id="5">
  <properties>
   <property name="terrain" value="FLOOR" />
  </properties>
 </tile>
 <tile id="6">
  <properties>
   <property name="terrain" value="DOOR" />
  </properties>
 </tile>
 <tile id="7">
  <properties>
   <property name="terrain" value="PRIVATE_FLOOR" />
  </properties>
 </tile>
 <tile id="8">
  <properties>
   <property name="terrain" value="PRIVATE_DOOR" />
  </properties>
 </tile>
 <tile id="9">
  <properties>
   <property name="terrain" value="CORDON" />
  </properties>
 </tile>
 <tile id="10">
  <properties>
   <property name="terrain" value="OBSTACLE" />
  </properties>
 </tile>
</tileset>
